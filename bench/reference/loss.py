"""The token-level clipped loss in plain PyTorch operations, timed on the tensors that bench/loss.mjs wrote.

usage: python loss.py FOLDER       reads FOLDER/task.json and the inputs beside it; writes FOLDER/results.json and grad<i>.f32, float32
"""

import json
import os
import sys
import time

import torch
from arrays import read_array, write_array


def ppo(logp, logp_old, advantages, mask, weights, o):
    ratio = (logp - logp_old).clamp(-20, 20).exp()
    clipped = ratio.clamp(1 - o["epsLow"], 1 + o["epsHigh"])
    loss = torch.maximum(-advantages * ratio, -advantages * clipped)
    loss = torch.where(advantages < 0, torch.minimum(loss, -o["dualClip"] * advantages), loss)
    weight = weights * mask
    return (loss * weight).sum() / weight.sum()


def k25(logp, logp_old, advantages, mask, weights, o):
    log_ratio = (logp - logp_old).clamp(-20, 20)
    clipped = log_ratio.exp().clamp(torch.e ** o["logAlpha"], torch.e ** o["logBeta"])
    loss = -advantages * clipped + o["tau"] * log_ratio**2
    weight = weights * mask
    return (loss * weight).sum() / weight.sum()


def statistics(logp, logp_old, advantages, mask, o):
    """What the operator reports beside the loss, as a trainer logs it."""
    with torch.no_grad():
        log_ratio = logp - logp_old
        ratio = log_ratio.clamp(-20, 20).exp()
        valid = mask.sum()
        k25 = o["kind"] == "k25"
        above = ratio > (torch.e ** o["logBeta"] if k25 else 1 + o["epsHigh"])
        below = ratio < (torch.e ** o["logAlpha"] if k25 else 1 - o["epsLow"])
        high = ((above if k25 else above & (advantages >= 0)) & mask.bool()).sum()
        low = ((below if k25 else below & (advantages < 0)) & mask.bool()).sum()
        kl3 = ((ratio - 1 - log_ratio) * mask).sum() / valid
        largest = (log_ratio.abs() * mask).max()
        ess = (ratio * mask).sum() ** 2 / (ratio**2 * mask).sum()
        return [x.item() for x in (valid, high, low, kl3, largest, ess)]


def main(folder):
    torch.set_num_threads(1)
    with open(os.path.join(folder, "task.json")) as file:
        task = json.load(file)

    def read(name):
        return read_array(folder, name + ".f32", torch.float32).view(task["shape"])

    inputs = [read(name) for name in ("logp", "logpOld", "advantages", "mask", "weights")]
    forms = []
    for i, (name, form, options, reports) in enumerate(
        [
            ("ppo", ppo, task["ppo"], False),
            ("k25", k25, task["k25"], False),
            ("ppo with statistics", ppo, task["ppo"], True),
            ("k25 with statistics", k25, task["k25"], True),
        ]
    ):
        best = float("inf")
        for _ in range(task["repeats"]):
            leaf = inputs[0].clone().requires_grad_()
            start = time.perf_counter()
            loss = form(leaf, *inputs[1:], options)
            loss.backward()
            if reports:
                statistics(leaf, *inputs[1:4], options)
            best = min(best, time.perf_counter() - start)
        write_array(folder, f"grad{i}.f32", leaf.grad)
        forms.append({"name": name, "loss": loss.item(), "seconds": best})
    with open(os.path.join(folder, "results.json"), "w") as file:
        json.dump(forms, file)


if __name__ == "__main__":
    main(sys.argv[1])
