"""Reads the arrays that the benchmarks write, and writes results for them; torch alone, as numpy need not be there."""

import ctypes
import os

import torch


def read_array(folder, name, dtype):
    with open(os.path.join(folder, name), "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=dtype)


def read_weights(folder, shapes):
    return {name: read_array(folder, f"{name}.f32", torch.float32).view(shape) for name, shape in shapes.items()}


def write_array(folder, name, tensor):
    values = tensor.contiguous()
    with open(os.path.join(folder, name), "wb") as file:
        file.write(ctypes.string_at(values.data_ptr(), values.nbytes))
