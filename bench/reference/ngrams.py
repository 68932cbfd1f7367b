"""Hashed n-gram embeddings (native/kernels/ngram_embedding.h) by torch.nn.functional.embedding_bag: the buckets of every token's n-grams
in whole-tensor operations, then the sum of their rows; timed on the arrays that bench/ngrams.mjs wrote.

usage: python ngrams.py FOLDER      reads FOLDER/task.json and the arrays beside it, writes results.json, output.f32 and gradient.f32
"""

import json
import os
import sys
import time

import torch
from arrays import read_array, write_array
from torch.nn import functional as F


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


BASE = 0x9E3779B97F4A7C15


def shifted(h):
    """h >> 33 of unsigned 64 bits."""
    return (h >> 33) & ((1 << 31) - 1)


def mix(h):
    h = (h ^ shifted(h)) * signed(0xFF51AFD7ED558CCD)
    h = (h ^ shifted(h)) * signed(0xC4CEB9FE1A85EC53)
    return h ^ shifted(h)


def bags(ids, starts, sizes, buckets):
    """Buckets one token after another, where each token's begin, and nothing for n-grams that would begin before their column."""
    tokens = torch.arange(len(ids))
    first = torch.repeat_interleave(starts[:-1], starts.diff())
    values, power, h, columns, valid = ids + 1, 1, torch.zeros_like(ids), [], []
    for read in range(max(sizes)):
        h = h + F.pad(values, (read, 0))[: len(ids)] * signed(power)
        power = power * BASE % (1 << 64)
        if read + 1 in sizes:
            columns.append(mix(h + signed((read + 1) * BASE % (1 << 64))) & (buckets - 1))
            valid.append(tokens - read >= first)
    columns, valid = torch.stack(columns, 1), torch.stack(valid, 1)
    offsets = F.pad(valid.sum(1).cumsum(0), (1, 0))[:-1]
    return columns[valid], offsets


def main(folder):
    torch.set_num_threads(1)
    with open(os.path.join(folder, "task.json")) as file:
        task = json.load(file)
    ids = read_array(folder, "ids.i32", torch.int32).long()
    starts = read_array(folder, "starts.i32", torch.int32).long()
    table = read_array(folder, "table.f32", torch.float32).view(task["buckets"], task["width"])
    weight = read_array(folder, "weight.f32", torch.float32).view(len(ids), task["width"])
    best = {"forward": float("inf"), "both": float("inf")}
    for _ in range(task["repeats"] + 1):
        with torch.no_grad():
            start = time.perf_counter()
            F.embedding_bag(*bag_arguments(table, ids, starts, task), mode="sum")
            best["forward"] = min(best["forward"], time.perf_counter() - start)
        leaf = table.clone().requires_grad_()
        start = time.perf_counter()
        output = F.embedding_bag(*bag_arguments(leaf, ids, starts, task), mode="sum")
        (output * weight).sum().backward()
        best["both"] = min(best["both"], time.perf_counter() - start)
    write_array(folder, "output.f32", output.detach())
    write_array(folder, "gradient.f32", leaf.grad)
    with open(os.path.join(folder, "results.json"), "w") as file:
        json.dump(best, file)


def bag_arguments(table, ids, starts, task):
    indices, offsets = bags(ids, starts, task["ngrams"], task["buckets"])
    return indices, table, offsets


if __name__ == "__main__":
    main(sys.argv[1])
