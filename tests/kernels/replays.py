"""Own reductions of publicly reported bugs of Triton on AMD; run by `reefwatch kernels`.

REPLAY in the environment names the one to run; 3 is for gfx942, the others for gfx1100.
"""

import os

import torch
import triton
import triton.language as tl


@triton.jit
def nested_loops(n_ptr, out_ptr):
    """https://github.com/triton-lang/triton/pull/11313"""
    pid = tl.program_id(0)
    n = tl.load(n_ptr + pid) & 3
    pos = 0
    for _i in range(n):
        for _j in range(n):
            pos += 1
    if pos < 4:
        tl.store(out_ptr + pid, pos)
    else:
        tl.store(out_ptr + pid, -pos)


@triton.jit
def bounded_loop(n_ptr, out_ptr):
    """https://github.com/triton-lang/triton/pull/11312"""
    pid = tl.program_id(0)
    n = tl.load(n_ptr + pid) & 7
    acc = 0
    for _i in range(n):
        acc += 1
    if acc >= 7:
        acc = 100
    tl.store(out_ptr + pid, acc)


@triton.jit
def tensor_atomic(x_ptr, total_ptr, old_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """https://github.com/triton-lang/triton/pull/8633"""
    rows = tl.arange(0, ROWS)
    x = tl.load(x_ptr + rows[:, None] * COLS + tl.arange(0, COLS)[None, :])
    old = tl.atomic_add(total_ptr + rows, tl.sum(x, 1))
    tl.store(old_ptr + rows, old)


@triton.jit
def ping_pong(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """https://github.com/triton-lang/triton/issues/11696"""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_at = a_ptr + m[:, None] * K + k[None, :]
    b_at = b_ptr + k[:, None] * N + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BK
        b_at += BK * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


@triton.jit
def acquire(flag_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """https://github.com/triton-lang/triton/pull/11289"""
    seen = tl.atomic_add(flag_ptr, 0, sem="acquire")
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + seen * BLOCK + i))


def whole(*shape):
    return torch.randint(-4, 5, shape, device="cuda").float()


def main(which):
    out = torch.zeros(16, dtype=torch.int32, device="cuda")
    if which == "1a":
        nested_loops[(16,)](torch.arange(16, dtype=torch.int32, device="cuda"), out)
    elif which == "1b":
        bounded_loop[(16,)](torch.arange(16, dtype=torch.int32, device="cuda"), out)
    elif which == "2":
        for rows, cols in ((64, 4), (16, 16)):
            x = torch.randint(0, 9, (rows, cols), dtype=torch.int32, device="cuda")
            # different old values: lanes that store the same one do not disagree
            total, old = (torch.arange(rows, dtype=torch.int32, device="cuda") for _ in range(2))
            tensor_atomic[(1,)](x, total, old, rows, cols, num_warps=4)
    elif which == "3":
        a, b, c = whole(128, 256), whole(256, 128), whole(128, 128)
        ping_pong[(1, 1)](a, b, c, 128, 128, 256, 128, 128, 64, num_warps=8, num_stages=2)
    elif which == "4":
        flag, x = torch.zeros(1, dtype=torch.int32, device="cuda"), whole(512)
        acquire[(1,)](flag, x, torch.zeros(512, device="cuda"), 512, num_warps=4)


main(os.environ["REPLAY"])
