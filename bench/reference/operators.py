"""Plain PyTorch forms of the operators, timed on the tensors that bench/run.mjs wrote.

usage: python operators.py FOLDER      reads FOLDER/task.json and the inputs beside it, writes FOLDER/results.json and one file
                                       a result tensor (float32, row-major)
"""

import json
import os
import sys
import time

import torch
from arrays import read_array, write_array


def wkv7_step_by_step(r, decay, k, v, a, b):
    """S_t = S_{t-1} diag(decay_t) + (S_{t-1} a_t) b_t^T + v_t k_t^T, o_t = S_t r_t; all (B,T,H,N).

    unbind and not r[:, t]: the gradient of an index is a tensor of zeros as large as r, T times.
    """
    batch, _, heads, n = r.shape
    state = r.new_zeros(batch, heads, n, n)
    outputs = []
    for r_t, decay_t, k_t, v_t, a_t, b_t in zip(*(x.unbind(1) for x in (r, decay, k, v, a, b))):
        state_times_a = state @ a_t.unsqueeze(-1)
        state = (
            state * decay_t.unsqueeze(-2)
            + state_times_a * b_t.unsqueeze(-2)
            + v_t.unsqueeze(-1) * k_t.unsqueeze(-2)
        )
        outputs.append((state @ r_t.unsqueeze(-1)).squeeze(-1))
    return torch.stack(outputs, 1)


def wkv7_step_by_step_indexed(r, decay, k, v, a, b):
    """The same loop as reference code has it, with r[:, t] in place of unbind."""
    batch, tokens, heads, n = r.shape
    state = r.new_zeros(batch, heads, n, n)
    outputs = []
    for t in range(tokens):
        state_times_a = state @ a[:, t].unsqueeze(-1)
        state = (
            state * decay[:, t].unsqueeze(-2)
            + state_times_a * b[:, t].unsqueeze(-2)
            + v[:, t].unsqueeze(-1) * k[:, t].unsqueeze(-2)
        )
        outputs.append((state @ r[:, t].unsqueeze(-1)).squeeze(-1))
    return torch.stack(outputs, 1)


def wkv7_chunked(r, decay, k, v, a, b, chunk):
    """The same in chunks of matrix products. With W_t the product of the decays of the chunk up to t, a' = a W_{t-1}, b' = b / W_t, k' = k / W_t, r' = r W_t,
    the vectors u_t = S_{t-1} a_t solve the triangular system U = A' S_0^T + tril(A' B'^T, -1) U + tril(A' K'^T, -1) V.
    """
    batch, tokens, heads, n = r.shape
    shape = (batch, tokens // chunk, chunk, heads, n)
    r, decay, k, v, a, b = (x.view(shape).permute(1, 0, 3, 2, 4) for x in (r, decay, k, v, a, b))
    product = decay.cumprod(-2)
    before = product / decay
    a, b, k, r = a * before, b / product, k / product, r * product
    through_b = torch.tril(a @ b.mT, -1)
    through_k = torch.tril(a @ k.mT, -1) @ v
    identity = torch.eye(chunk, dtype=r.dtype)
    read_b, read_k = torch.tril(r @ b.mT), torch.tril(r @ k.mT) @ v
    state = r.new_zeros(batch, heads, n, n)
    outputs = []
    for c in range(shape[1]):
        u = torch.linalg.solve_triangular(
            identity - through_b[c], a[c] @ state.mT + through_k[c], upper=False, unitriangular=True
        )
        outputs.append(r[c] @ state.mT + read_b[c] @ u + read_k[c])
        state = (state + u.mT @ b[c] + v[c].mT @ k[c]) * product[c, :, :, -1:, :]
    return torch.stack(outputs, 1).permute(0, 1, 3, 2, 4).reshape(batch, tokens, heads, n)


def ema_step_by_step(x, p):
    """y_j = P_j x_j + (1 - P_j) y_{j-1}, y_{-1} = x_0; x (B,M,D), p (B,M)."""
    y = x[:, 0]
    outputs = []
    for x_t, p_t in zip(x.unbind(1), p.unsqueeze(-1).unbind(1)):
        y = p_t * x_t + (1 - p_t) * y
        outputs.append(y)
    return torch.stack(outputs, 1)


FORMS = {
    "wkv7": {
        "PyTorch, steps of x[:, t]": wkv7_step_by_step_indexed,
        "PyTorch, step by step": wkv7_step_by_step,
        "PyTorch, chunks of 16": lambda *x: wkv7_chunked(*x, 16),
        "PyTorch, chunks of 32": lambda *x: wkv7_chunked(*x, 32),
    },
    "emaScan": {"PyTorch, step by step": ema_step_by_step},
}


def sgemm_rate():
    """GFLOP/s of a 1024 x 1024 product, the best of ten."""
    x = torch.randn(1024, 1024)
    best = float("inf")
    for _ in range(10):
        start = time.perf_counter()
        x @ x
        best = min(best, time.perf_counter() - start)
    return 2 * 1024**3 / best * 1e-9


def measure(form, inputs, weight, repeats):
    """Best seconds forward without gradients, best forward + backward, and output with gradients of <output, weight>."""
    forward = both = float("inf")
    for _ in range(repeats):
        with torch.no_grad():
            start = time.perf_counter()
            form(*inputs)
            forward = min(forward, time.perf_counter() - start)
        leaves = [x.detach().requires_grad_() for x in inputs]
        start = time.perf_counter()
        output = form(*leaves)
        output.backward(weight)
        both = min(both, time.perf_counter() - start)
    return forward, both, [output.detach(), *(x.grad for x in leaves)]


def main(folder):
    torch.set_num_threads(1)
    with open(os.path.join(folder, "task.json")) as file:
        task = json.load(file)

    def read(name):
        return read_array(folder, name + ".f32", torch.float32)

    inputs = [read(name).view(task["shapes"][name]) for name in task["inputs"]]
    weight = read("weight").view(task["shapes"]["weight"])
    report = {"torch": torch.__version__, "sgemm": sgemm_rate(), "forms": []}
    for index, (name, form) in enumerate(FORMS[task["operator"]].items()):
        forward, both, results = measure(form, inputs, weight, task["repeats"])
        for i, result in enumerate(results):
            write_array(folder, f"form{index}.{i}.f32", result)
        report["forms"].append({"name": name, "forward": forward, "both": both})
    with open(os.path.join(folder, "results.json"), "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main(sys.argv[1])
