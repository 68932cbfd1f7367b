"""Annotates CSV files with the model of model.py: a plain loader (csv, serialise.py), batches by length, JSON. Times its parts.

usage: python annotate.py FOLDER      reads FOLDER/task.json, the weights beside it and the files that it names; writes
                                      FOLDER/python.json and FOLDER/results.json
"""

import csv
import json
import os
import sys
import time

import torch
from arrays import read_weights
from model import FORMS, Annotator
from serialise import Serialiser

PAD = 256


class Clock:
    """Seconds by part."""

    def __init__(self):
        self.seconds, self.at = {}, time.perf_counter()

    def mark(self, part):
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0) + now - self.at
        self.at = now


def read_table(file):
    with open(file, newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    return header, [list(cells) for cells in zip(*rows)]


def batches(examples, rows):
    order = sorted(range(len(examples)), key=lambda i: len(examples[i][0]))
    return [order[i : i + rows] for i in range(0, len(order), rows)]


def collate(examples, chunk):
    tokens = max(len(ids) for ids, _, _ in examples)
    tokens += -tokens % chunk
    ids = torch.full((len(examples), tokens), PAD)
    roles = torch.zeros(len(examples), tokens, dtype=torch.long)
    pool = torch.zeros(len(examples), tokens)
    for i, (example, role, start) in enumerate(examples):
        ids[i, : len(example)] = torch.tensor(example)
        roles[i, : len(role)] = torch.tensor(role)
        pool[i, start : len(example)] = 1
    return ids, roles, pool


@torch.inference_mode()
def annotate(task, model, clock):
    serialiser, examples, columns = Serialiser(task["serialise"]), [], []
    for file in task["files"]:
        name = os.path.basename(file)
        header, table = read_table(file)
        clock.mark("parse")
        examples += serialiser.encode_table(table)
        columns += [{"table": name, "column": i, "header": title} for i, title in enumerate(header)]
        clock.mark("serialise")
    for batch in batches(examples, task["rows"]):
        inputs = collate([examples[i] for i in batch], task["chunk"])
        best = torch.softmax(model(*inputs), 1).topk(2, 1)
        for i, values, labels in zip(batch, best.values.tolist(), best.indices.tolist()):
            columns[i].update(
                type=task["labels"][labels[0]], confidence=values[0], runnerUp=task["labels"][labels[1]], runnerUpConfidence=values[1]
            )
        clock.mark("forward")
    with open(task["out"], "w") as file:
        json.dump(columns, file, indent=2)
    clock.mark("write")


def main(folder):
    with open(os.path.join(folder, "task.json")) as file:
        task = json.load(file)
    torch.set_num_threads(task["threads"])
    weights = read_weights(folder, task["weights"])
    model = Annotator(weights, task["layers"], task["headSize"], FORMS[f"chunk{task['chunk']}"][1])
    annotate({**task, "files": task["files"][:4]}, model, Clock())
    best = None
    for _ in range(task["repeats"]):
        clock, start = Clock(), time.perf_counter()
        annotate(task, model, clock)
        seconds = time.perf_counter() - start
        if best is None or seconds < best["seconds"]:
            best = {"seconds": seconds, "parts": clock.seconds}
    with open(os.path.join(folder, "results.json"), "w") as file:
        json.dump(best, file)


if __name__ == "__main__":
    main(sys.argv[1])
