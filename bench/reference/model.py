"""The annotation model of docs/model.md in plain PyTorch, flat layouts; trained and timed on the weights and batches that bench/training.mjs wrote.

usage: python model.py FOLDER      reads FOLDER/task.json and the arrays beside it, writes FOLDER/results.json
"""

import json
import math
import os
import sys
import time

import torch
from arrays import read_array, read_weights
from operators import wkv7_chunked, wkv7_step_by_step, wkv7_step_by_step_indexed
from torch import nn
from torch.nn import functional as F

DECAY_SCALE = math.exp(-0.5)


def shift(x):
    return F.pad(x, (0, 0, 1, -1))


def time_mix(p, x, v_first, wkv7, head_size):
    batch, tokens, width = x.shape
    mixed = x.unsqueeze(2) + (shift(x) - x).unsqueeze(2) * p["mu"]
    xr, xw, xk, xv, xa, xg = mixed.unbind(2)
    r, k, v = xr @ p["receptance.weight"].T, xk @ p["key.weight"].T, xv @ p["value.weight"].T
    decay = torch.exp(-DECAY_SCALE * torch.sigmoid(p["w0"] + torch.tanh(xw @ p["w1"]) @ p["w2"]))
    a = torch.sigmoid(p["a0"] + (xa @ p["a1"]) @ p["a2"])
    gate = torch.sigmoid(xg @ p["g1"]) @ p["g2"]
    if v_first is None:
        v_first = v
    else:
        v = v + (v_first - v) * torch.sigmoid(p["v0"] + (xv @ p["v1"]) @ p["v2"])

    def heads(t):
        return t.view(batch, tokens, width // head_size, head_size)

    kk = F.normalize(heads(k * p["kK"]), dim=-1, eps=1e-12)
    k = k * (1 + (a - 1) * p["kA"])
    r, k, v = heads(r), heads(k), heads(v)
    o = wkv7(r, heads(decay), k, v, -kk, kk * heads(a))
    o = F.group_norm(o.reshape(batch * tokens, width), width // head_size, p["norm.gain"], p["norm.bias"], head_size * 1e-5)
    bonus = (r * k * p["rK"]).sum(-1, keepdim=True) * v
    y = (o.view(batch, tokens, width) + bonus.reshape(batch, tokens, width)) * gate
    return y @ p["output.weight"].T, v_first


def channel_mix(p, x):
    k = x + (shift(x) - x) * p["mu"]
    return torch.relu(k @ p["key.weight"].T).square() @ p["value.weight"].T


class Annotator(nn.Module):
    def __init__(self, weights, layers, head_size, wkv7):
        super().__init__()
        self.weights = nn.ParameterDict({name.replace(".", "/"): nn.Parameter(x.clone()) for name, x in weights.items()})
        self.layers, self.head_size, self.wkv7 = layers, head_size, wkv7

    def part(self, prefix):
        prefix = prefix.replace(".", "/") + "/"
        return {name[len(prefix):].replace("/", "."): x for name, x in self.weights.items() if name.startswith(prefix)}

    def norm(self, prefix, x):
        p = self.part(prefix)
        return F.layer_norm(x, x.shape[-1:], p["gain"], p["bias"])

    def forward(self, ids, roles=None, pool=None):
        """ids, roles (absent: 0), pool (absent: all ones), 1 at the tokens that are averaged: (B,T) -> logits (B,C)."""
        roles = torch.zeros_like(ids[:1, :1]) if roles is None else roles
        h = self.part("backbone.byteEmbedding")["weight"][ids] + self.part("backbone.roleEmbedding")["weight"][roles]
        v_first = None
        for layer in range(self.layers):
            block = f"backbone.stage0.encoder.{layer}"
            y, v_first = time_mix(self.part(f"{block}.timeMix"), self.norm(f"{block}.norm1", h), v_first, self.wkv7, self.head_size)
            h = h + y
            h = h + channel_mix(self.part(f"{block}.channelMix"), self.norm(f"{block}.norm2", h))
        h = self.norm("backbone.stage0.encoder.norm", h)
        pooler, classifier = self.part("pooler"), self.part("classifier")
        mean = h.mean(1) if pool is None else (h * pool.unsqueeze(-1)).sum(1) / pool.sum(1, keepdim=True)
        pooled = torch.tanh(F.linear(mean, pooler["weight"], pooler["bias"]))
        return F.linear(pooled, classifier["weight"], classifier["bias"])


def optimizer_of(model, task):
    groups = {}
    for name, parameter in model.weights.items():
        last = name.split("/")[-1]
        groups.setdefault("weight" if last == "weight" else "w0" if last == "w0" else "", []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": task["lr"] * (2 if kind == "w0" else 1), "weight_decay": task["weightDecay"] if kind == "weight" else 0}
            for kind, parameters in groups.items()
        ],
        betas=(0.9, 0.99),
        eps=1e-8,
    )


def train(task, weights, ids, labels, wkv7):
    model = Annotator(weights, task["layers"], task["headSize"], wkv7)
    optimizer = optimizer_of(model, task)
    losses, seconds = [], []
    for step in range(task["steps"]):
        start = time.perf_counter()
        loss = F.cross_entropy(model(ids), labels)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        losses.append([loss.item(), norm.item()])
    return losses, min(seconds)


FORMS = {
    "stepIndexed": ("PyTorch, steps of x[:, t]", wkv7_step_by_step_indexed),
    "step": ("PyTorch, step by step", wkv7_step_by_step),
    "chunk16": ("PyTorch, chunks of 16", lambda *x: wkv7_chunked(*x, 16)),
    "chunk32": ("PyTorch, chunks of 32", lambda *x: wkv7_chunked(*x, 32)),
}


def main(folder):
    with open(os.path.join(folder, "task.json")) as file:
        task = json.load(file)
    torch.set_num_threads(task["threads"])

    weights = read_weights(folder, task["weights"])
    ids = read_array(folder, "ids.i32", torch.int32).long().view(task["batch"], task["tokens"])
    labels = read_array(folder, "labels.i32", torch.int32).long()
    report = []
    for form in task["forms"]:
        name, wkv7 = FORMS[form]
        losses, seconds = train(task, weights, ids, labels, wkv7)
        report.append({"name": name, "losses": losses, "seconds": seconds})
    with open(os.path.join(folder, "results.json"), "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main(sys.argv[1])
