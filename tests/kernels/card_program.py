"""Triton kernels on a card, own and of torch.compile; run by `reefwatch run --kernels`.

Prints digests of its results, so that a watched run can be held against an unwatched one.
"""

import hashlib

import torch
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + tl.load(y_ptr + i, mask=i < n), mask=i < n)


_SIZES = [triton.Config({"BLOCK": n}, num_warps=w) for n, w in ((512, 4), (1024, 8), (512, 2))]


@triton.autotune(configs=_SIZES, key=["n"])
@triton.jit
def softmax(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    x = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + tl.program_id(0) * n + i, x / tl.sum(x, 0), mask=i < n)


@triton.autotune(configs=_SIZES, key=["n"])
@triton.jit
def short_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # wrong on purpose where BLOCK is less than n: the rest of the row is left out
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, 0))


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty))


def digest(value):
    return hashlib.sha256(value.detach().float().cpu().numpy().tobytes()).hexdigest()[:16]


def main():
    torch.manual_seed(3)
    x, y = torch.randn(100_000, device="cuda"), torch.randn(100_000, device="cuda")
    out = torch.empty_like(x)
    for _ in range(4):
        add[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    print("add", digest(out), flush=True)
    x = torch.randn(200, 500, device="cuda")
    out = torch.empty_like(x)
    softmax[(200,)](x, out, 500)
    print("softmax", digest(out), flush=True)
    x = torch.randn(20, 700, device="cuda")
    out = torch.empty(20, device="cuda")
    short_sum[(20,)](x, out, 700)
    for kind in (torch.float16, torch.bfloat16):
        a, b = (torch.randn(512, 512, device="cuda").to(kind) for _ in range(2))
        c = torch.empty_like(a)
        matmul[(8, 8)](a, b, c, 512, 512, 512, 64, 64, 32)
        print("matmul", kind, digest(c), flush=True)
    model = torch.nn.Sequential(
        torch.nn.LayerNorm(256),
        torch.nn.Linear(256, 512),
        torch.nn.GELU(),
        torch.nn.Linear(512, 64),
    ).cuda()
    compiled = torch.compile(model)
    x = torch.randn(64, 256, device="cuda")
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(compiled(x), torch.arange(64, device="cuda"))
        loss.backward()
    print("compiled", digest(loss), digest(model[1].weight.grad), flush=True)


main()
