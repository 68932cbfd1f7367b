"""Reads the arrays that the benchmarks write."""

import os

import torch


def read_array(folder, name, dtype):
    with open(os.path.join(folder, name), "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=dtype)


def read_weights(folder, shapes):
    return {name: read_array(folder, f"{name}.f32", torch.float32).view(shape) for name, shape in shapes.items()}
