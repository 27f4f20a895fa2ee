"""Kernels that multiply matrices."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    SUM: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), SUM)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a_in = (m[:, None] < M) & (k[None, :] < K)
        b_in = (k[:, None] < K) & (n[None, :] < N)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=a_in, other=0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=b_in, other=0)
        total = tl.dot(a, b, total, out_dtype=SUM)
    c_in = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty), mask=c_in)


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale,
    DIM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, DIM)
    base = tl.program_id(1) * length * DIM
    q_at = base + m[:, None] * DIM + d[None, :]
    q = tl.load(q_ptr + q_at, mask=m[:, None] < length, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, DIM), tl.float32)
    for start in range(0, length, BN):
        n = start + tl.arange(0, BN)
        k_at = base + n[None, :] * DIM + d[:, None]
        v_at = base + n[:, None] * DIM + d[None, :]
        k = tl.load(k_ptr + k_at, mask=n[None, :] < length, other=0.0)
        v = tl.load(v_ptr + v_at, mask=n[:, None] < length, other=0.0)
        score = tl.dot(q, k) * scale
        score = tl.where(m[:, None] >= n[None, :], score, -float("inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        p = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(top - higher)
        weight = weight * shrink + tl.sum(p, 1)
        total = tl.dot(p.to(v.dtype), v, total * shrink[:, None])
        top = higher
    y = (total / weight[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + q_at, y, mask=m[:, None] < length)


@triton.jit
def conv3x3(
    x_ptr, w_ptr, out_ptr, height, width, channels, filters,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    f = tl.program_id(1) * BN + tl.arange(0, BN)
    row = pixel // width
    col = pixel % width
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, 9 * channels, BK):
        k = start + tl.arange(0, BK)
        tap = k // channels
        y = row[:, None] + (tap // 3)[None, :] - 1
        x = col[:, None] + (tap % 3)[None, :] - 1
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (tap[None, :] < 9)
        a = tl.load(x_ptr + (y * width + x) * channels + (k % channels)[None, :], mask=inside,
                    other=0.0)  # fmt: skip
        b_in = (k[:, None] < 9 * channels) & (f[None, :] < filters)
        b = tl.load(w_ptr + k[:, None] * filters + f[None, :], mask=b_in, other=0.0)
        total = tl.dot(a, b, total)
    out_in = (pixel[:, None] < height * width) & (f[None, :] < filters)
    y_at = out_ptr + pixel[:, None] * filters + f[None, :]
    tl.store(y_at, total.to(out_ptr.dtype.element_ty), mask=out_in)


def _matmul(kind: str, out: str, total: object) -> tuple[object, dict, dict]:
    sizes = {"M": "i32", "N": "i32", "K": "i32"}
    signature = {"a_ptr": kind, "b_ptr": kind, "c_ptr": out, **sizes}
    return matmul, signature, {"BM": 64, "BN": 64, "BK": 32, "SUM": total}


def _attention(kind: str) -> tuple[object, dict, dict]:
    signature = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), kind)
    signature |= {"length": "i32", "scale": "fp32"}
    return attention, signature, {"DIM": 64, "BM": 64, "BN": 32}


SPECS = {
    "matmul_f16": _matmul("*fp16", "*fp16", tl.float32),
    "matmul_bf16": _matmul("*bf16", "*bf16", tl.float32),
    "matmul_f32": _matmul("*fp32", "*fp32", tl.float32),
    "matmul_i8": _matmul("*i8", "*i32", tl.int32),
    "attention_f16": _attention("*fp16"),
    "attention_bf16": _attention("*bf16"),
    "conv3x3_f16": (
        conv3x3,
        dict.fromkeys(("x_ptr", "w_ptr", "out_ptr"), "*fp16")
        | dict.fromkeys(("height", "width", "channels", "filters"), "i32"),
        {"BM": 64, "BN": 32, "BK": 32},
    ),
}
