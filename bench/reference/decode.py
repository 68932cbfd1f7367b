"""A decoding step of the causal language model of docs/model.md in PyTorch, eager, flat layouts; timed on the weights and tokens that
bench/decode.mjs wrote.

usage: python decode.py FOLDER      reads FOLDER/task.json and the arrays beside it, writes FOLDER/results.json
"""

import json
import math
import os
import sys
import time

import torch
from arrays import read_array, read_weights, write_array
from torch.nn import functional as F

DECAY_SCALE = math.exp(-0.5)


class Block:
    """One block's parameters by their names' last parts; its state is updated by every step."""

    def __init__(self, weights, prefix, rows, head_size):
        self.__dict__.update({name[len(prefix):].replace(".", "_"): x for name, x in weights.items() if name.startswith(prefix)})
        width = self.norm1_gain.shape[0]
        self.heads, self.head_size = width // head_size, head_size
        self.att_previous = self.ffn_previous = torch.zeros(rows, width)
        self.state = torch.zeros(rows, self.heads, head_size, head_size)
        self.timeMix_mu_rows = self.timeMix_mu.unsqueeze(1)
        self.k_k, self.k_a = self.timeMix_kK, self.timeMix_kA

    def split(self, x):
        return x.view(x.shape[0], self.heads, self.head_size)

    def time_mix(self, x, v_first):
        xr, xw, xk, xv, xa, xg = torch.addcmul(x, self.att_previous - x, self.timeMix_mu_rows)
        self.att_previous = x
        r, k, v = F.linear(xr, self.timeMix_receptance_weight), F.linear(xk, self.timeMix_key_weight), F.linear(xv, self.timeMix_value_weight)
        decay = torch.exp(-DECAY_SCALE * torch.sigmoid(torch.addmm(self.timeMix_w0, torch.tanh(xw @ self.timeMix_w1), self.timeMix_w2)))
        a = torch.sigmoid(torch.addmm(self.timeMix_a0, xa @ self.timeMix_a1, self.timeMix_a2))
        gate = torch.sigmoid(xg @ self.timeMix_g1) @ self.timeMix_g2
        if v_first is None:
            v_first = v
        else:
            v = torch.lerp(v, v_first, torch.sigmoid(torch.addmm(self.timeMix_v0, xv @ self.timeMix_v1, self.timeMix_v2)))
        kk = F.normalize(self.split(k * self.k_k), dim=-1, eps=1e-12)
        k = self.split(k * (1 + (a - 1) * self.k_a))
        r, v, a, decay = self.split(r), self.split(v), self.split(a), self.split(decay)
        removed = self.state @ kk.unsqueeze(-1)
        self.state = self.state * decay.unsqueeze(-2) - removed @ (kk * a).unsqueeze(-2) + v.unsqueeze(-1) @ k.unsqueeze(-2)
        o = self.state @ r.unsqueeze(-1)
        o = F.group_norm(o.view(x.shape), self.heads, self.timeMix_norm_gain, self.timeMix_norm_bias, self.head_size * 1e-5)
        bonus = (r * k * self.timeMix_rK).sum(-1, keepdim=True) * v
        return F.linear((o + bonus.view(x.shape)) * gate, self.timeMix_output_weight), v_first

    def channel_mix(self, x):
        mixed = torch.addcmul(x, self.ffn_previous - x, self.channelMix_mu[0])
        self.ffn_previous = x
        return F.linear(torch.relu(F.linear(mixed, self.channelMix_key_weight)).square(), self.channelMix_value_weight)

    def step(self, h, v_first):
        width = (h.shape[-1],)
        y, v_first = self.time_mix(F.layer_norm(h, width, self.norm1_gain, self.norm1_bias), v_first)
        h = h + y
        return h + self.channel_mix(F.layer_norm(h, width, self.norm2_gain, self.norm2_bias)), v_first


class Decoder:
    def __init__(self, weights, layers, head_size, rows):
        self.blocks = [Block(weights, f"backbone.stage0.encoder.{layer}.", rows, head_size) for layer in range(layers)]
        self.table = weights["backbone.byteEmbedding.weight"] + weights["backbone.roleEmbedding.weight"][0]
        self.gain, self.bias = weights["backbone.stage0.encoder.norm.gain"], weights["backbone.stage0.encoder.norm.bias"]
        self.head = weights["head.weight"]

    def step(self, ids):
        h, v_first = F.embedding(ids, self.table), None
        for block in self.blocks:
            h, v_first = block.step(h, v_first)
        return F.linear(F.layer_norm(h, (h.shape[-1],), self.gain, self.bias), self.head)


@torch.inference_mode()
def main(folder):
    with open(os.path.join(folder, "task.json")) as file:
        task = json.load(file)
    torch.set_num_threads(task["threads"])
    weights = read_weights(folder, task["weights"])
    ids = read_array(folder, "ids.i32", torch.int32).long().view(task["tokens"], task["rows"])
    decoder = Decoder(weights, task["layers"], task["headSize"], task["rows"])
    logits, seconds = [], []
    for t in range(task["tokens"]):
        start = time.perf_counter()
        logits.append(decoder.step(ids[t]))
        seconds.append(time.perf_counter() - start)
    write_array(folder, "logits.f32", torch.stack(logits))
    with open(os.path.join(folder, "results.json"), "w") as file:
        json.dump({"seconds": min(seconds)}, file)


if __name__ == "__main__":
    main(sys.argv[1])
