"""Inputs and numpy references of the survey kernels; needs no Triton.

A case: the arguments in order, the grid, and for each output its argument, the exact values
in f64 (or integers) and the tolerance, with where that comes from. bf16 is kept as raw u16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reefwatch.isa import Scalar

f16, f32, f64, i32 = np.float16, np.float32, np.float64, np.int32
HALF_ULP = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


@dataclass(frozen=True)
class Case:
    args: list[Any]
    grid: tuple[int, ...]
    out: int  # among the arrays
    exact: np.ndarray
    bound: Any  # largest error that rounding explains, element by element
    bf16: bool = False
    xf32: Any = 0.0  # what more the 10-bit mantissas of xf32 products explain (gfx942)


def to_bf16(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x, f32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(f32)


def rounding(kind: str, exact: np.ndarray, inner: Any = 0.0, ulps: float = 1.0) -> np.ndarray:
    """One rounding of the result to `kind`, and `inner` from what came before."""
    smallest = {"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}[kind]
    return HALF_ULP[kind] * ulps * 2 * np.abs(exact) + inner + smallest


def worst(case: Case, got: np.ndarray, target: str = "") -> float:
    """The largest error in units of the bound; above 1 is wrong."""
    bound = case.bound + case.xf32 if target == "gfx942" else case.bound
    values = from_bf16(got) if case.bf16 else got
    values = values.astype(f64)
    bad = ~np.isfinite(values) & np.isfinite(case.exact)
    gap = np.abs(values - case.exact)
    with np.errstate(all="ignore"):
        share = np.where(gap == 0, 0.0, gap / bound)
    return float(np.max(np.where(bad | np.isnan(share), np.inf, share)))


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(f32)


def _size(rng: np.random.Generator, least: int, most: int) -> int:
    """A size that differs from seed to seed."""
    return int(rng.integers(least, most + 1))


def _blocks(count: int, block: int) -> tuple[int]:
    return (-(-count // block),)


def add_f32(rng):
    n = _size(rng, 3100, 5000)
    x, y = _normal(rng, n), _normal(rng, n)
    args = [x, y, np.zeros(n, f32), Scalar(n)]
    return Case(args, _blocks(n, 1024), 2, (x + y).astype(f64), 0)


def add_bf16(rng):
    n = _size(rng, 3100, 5000)
    x, y = to_bf16(_normal(rng, n)), to_bf16(_normal(rng, n))
    exact = from_bf16(to_bf16(from_bf16(x) + from_bf16(y))).astype(f64)
    args = [x, y, np.zeros(n, np.uint16), Scalar(n)]
    return Case(args, _blocks(n, 1024), 2, exact, 0, True)


def gelu_bf16(rng):
    n = _size(rng, 1100, 2040)
    x = to_bf16(_normal(rng, n) * 3)
    v = from_bf16(x).astype(f64)
    exact = 0.5 * v * (1 + np.array([math.erf(t) for t in v * math.sqrt(0.5)]))
    bound = rounding("bf16", exact, 2e-6 * np.abs(v))
    return Case([x, np.zeros(n, np.uint16), Scalar(n)], _blocks(n, 1024), 1, exact, bound, True)


def silu_mul_bf16(rng):
    n = _size(rng, 1100, 2040)
    x, y = to_bf16(_normal(rng, n) * 4), to_bf16(_normal(rng, n))
    v = from_bf16(x).astype(f64)
    exact = v / (1 + np.exp(-v)) * from_bf16(y)
    out = np.zeros(n, np.uint16)
    bound = rounding("bf16", exact, 1e-6 * np.abs(exact))
    return Case([x, y, out, Scalar(n)], _blocks(n, 1024), 2, exact, bound, True)


def sin_cos_f32(rng):
    n = _size(rng, 600, 1020)
    x = (_normal(rng, n) * rng.choice([1.0, 10.0, 1e6, 1e12], n)).astype(f32)
    exact = np.sin(x.astype(f64)) + np.cos(x.astype(f64))
    return Case([x, np.zeros(n, f32), Scalar(n)], _blocks(n, 512), 1, exact, 1e-6)


def divide_i32(rng):
    n = _size(rng, 600, 1020)
    x = (rng.integers(-(2**31), 2**31, n) >> rng.integers(0, 30, n)).astype(i32)
    y = ((rng.integers(1, 2**31, n) >> rng.integers(0, 30, n)) | 1).astype(i32)
    y *= rng.choice([-1, 1], n).astype(i32)
    quotient = np.trunc(x.astype(f64) / y).astype(np.int64)
    total = quotient + (x.astype(np.int64) - quotient * y)
    exact = total.astype(i32).astype(f64)
    return Case([x, y, np.zeros(n, i32), Scalar(n)], _blocks(n, 512), 2, exact, 0)


def _philox(seed: int, count: int) -> np.ndarray:
    """The first word of ten rounds of Philox 4x32, of each counter."""
    mask, low = (1 << 32) - 1, np.uint64(0xFFFFFFFF)
    words = [np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))]
    keys = [seed, 0]
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]), second & low,
            (first >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]), first & low,
        ]  # fmt: skip
        keys = [(keys[0] + 0x9E3779B9) & mask, (keys[1] + 0xBB67AE85) & mask]
    return words[0].astype(np.uint32)


def dropout_f32(rng):
    n = _size(rng, 2100, 3060)
    x = np.abs(_normal(rng, n)) + 1
    signed = _philox(123, n).view(i32).astype(np.int64)
    uniform = np.where(signed < 0, -signed - 1, signed).astype(f32) * f32(4.6566127342e-10)
    exact = np.where(uniform > f32(0.3), x / (1 - f32(0.3)), 0).astype(f64)
    args = [x, np.zeros(n, f32), Scalar(n), Scalar(0.3, "f"), Scalar(123)]
    return Case(args, _blocks(n, 1024), 1, exact, rounding("f32", exact, ulps=2))


def rotary_bf16(rng):
    x, cos, sin = to_bf16(_normal(rng, 8, 128)), _normal(rng, 8, 64), _normal(rng, 8, 64)
    left, right = np.split(from_bf16(x).astype(f64), 2, axis=1)
    exact = np.concatenate([left * cos - right * sin, right * cos + left * sin], 1)
    args = [x, cos, sin, np.zeros((8, 128), np.uint16)]
    return Case(args, (8,), 3, exact, rounding("bf16", exact, 1e-5), True)


def softmax_f32(rng):
    width = _size(rng, 700, 1023)
    x = _normal(rng, 32, width) * np.repeat([1, 8, 60, 3000], 8)[:, None].astype(f32)
    gap = x.astype(f64) - x.max(1, keepdims=True)
    e = np.exp(gap)
    exact = e / e.sum(1, keepdims=True)
    args = [x, np.zeros_like(x), Scalar(width), Scalar(width)]
    # the exponent is rounded to f32 before exp: an absolute error there is a relative one here
    bound = rounding("f32", exact, exact * np.abs(gap) * 2.0**-22, ulps=40)
    return Case(args, (32,), 1, exact, bound)


def layer_norm_f32(rng):
    width = _size(rng, 700, 1023)
    x, w, b = _normal(rng, 16, width) + 3, _normal(rng, width), _normal(rng, width)
    v = x.astype(f64)
    centred = v - v.mean(1, keepdims=True)
    exact = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b
    args = [x, w, b, np.zeros_like(x), Scalar(width), Scalar(width), Scalar(1e-5, "f")]
    return Case(args, (16,), 3, exact, 1e-5)


def rms_norm_bf16(rng):
    width = _size(rng, 700, 1023)
    x, w = to_bf16(_normal(rng, 8, width)), to_bf16(_normal(rng, width))
    v = from_bf16(x).astype(f64)
    exact = v / np.sqrt((v**2).mean(1, keepdims=True) + 1e-5) * from_bf16(w)
    args = [x, w, np.zeros((8, width), np.uint16), Scalar(width), Scalar(width), Scalar(1e-5, "f")]
    return Case(args, (8,), 2, exact, rounding("bf16", exact, 1e-5), True)


def cross_entropy_f32(rng):
    width = _size(rng, 700, 1023)
    x, target = _normal(rng, 16, width), rng.integers(0, width, 16)
    x *= np.repeat([1, 8, 60, 3000], 4)[:, None].astype(f32)
    v = x.astype(f64)
    top = v.max(1)
    exact = top + np.log(np.exp(v - top[:, None]).sum(1)) - v[np.arange(16), target]
    args = [x, target.astype(np.int64), np.zeros(16, f32), Scalar(width), Scalar(width)]
    return Case(args, (16,), 2, exact, 1e-5 + 2.0**-22 * np.abs(v).max(1))


def sum_f32(rng):
    n = _size(rng, 3080, 4095)
    x = _normal(rng, n)
    exact = np.pad(x.astype(f64), (0, 4096 - n)).reshape(4, 1024).sum(1)
    return Case([x, np.zeros(4, f32), Scalar(n)], (4,), 1, exact, 1e-4)


def argmax_f32(rng):
    width = _size(rng, 700, 1023)
    x = _normal(rng, 64, width)
    x[32:] = np.round(x[32:])  # the first of equals is wanted
    args = [x, np.zeros(64, i32), Scalar(width)]
    return Case(args, (64,), 1, x.argmax(1).astype(f64), 0)


def cumsum_f32(rng):
    width = _size(rng, 700, 1023)
    x = _normal(rng, 4, width)
    exact = x.astype(f64).cumsum(1)
    return Case([x, np.zeros_like(x), Scalar(width)], (4,), 1, exact, 1e-4)


def recurrence_f32(rng):
    decay = rng.uniform(0.5, 1, (4, 1024)).astype(f32)
    value = _normal(rng, 4, 1024)
    exact, state = np.zeros((4, 1024)), np.zeros(4)
    for t in range(1024):
        state = decay[:, t].astype(f64) * state + value[:, t]
        exact[:, t] = state
    return Case([decay, value, np.zeros_like(decay), Scalar(1024)], (4,), 2, exact, 1e-4)


def sort_f32(rng):
    x = _normal(rng, 1024)
    exact = np.sort(x.reshape(2, 512), 1).reshape(-1).astype(f64)
    return Case([x, np.zeros(1024, f32)], (2,), 1, exact, 0)


def _matmul(rng, kind: str):
    # beyond the middle of the last tile, so that every part of it has work
    m, n, k = _size(rng, 114, 128), _size(rng, 114, 128), _size(rng, 83, 96)
    return matmul(rng, kind, m, n, k)


def matmul(rng, kind: str, m: int, n: int, k: int):
    if kind == "i8":
        a = rng.integers(-128, 128, (m, k)).astype(np.int8)
        b = rng.integers(-128, 128, (k, n)).astype(np.int8)
        out, x, y = np.zeros((m, n), i32), a.astype(f64), b.astype(f64)
    elif kind == "bf16":
        a, b = to_bf16(_normal(rng, m, k)), to_bf16(_normal(rng, k, n))
        out, x, y = np.zeros((m, n), np.uint16), from_bf16(a).astype(f64), from_bf16(b).astype(f64)
    else:
        dtype = f16 if kind == "f16" else f32
        a, b = _normal(rng, m, k).astype(dtype), _normal(rng, k, n).astype(dtype)
        out, x, y = np.zeros((m, n), dtype), a.astype(f64), b.astype(f64)
    exact = x @ y
    inner = 2.0**-24 * k * (np.abs(x) @ np.abs(y))  # k roundings of partial sums in f32
    bound = 0 if kind == "i8" else rounding(kind, exact, inner)
    grid = (-(-m // 64), -(-n // 64))
    args = [a, b, out, Scalar(m), Scalar(n), Scalar(k)]
    xf32 = 2.0**-10 * (np.abs(x) @ np.abs(y)) if kind == "f32" else 0.0
    return Case(args, grid, 2, exact, bound, kind == "bf16", xf32)


def _attention(rng, kind: str):
    length, dim, heads = int(rng.choice([113, 127, 128])), 64, 2
    shape = (heads, length, dim)
    if kind == "f16":
        q, k, v = (_normal(rng, *shape).astype(f16) for _ in range(3))
        x, y, z = (t.astype(f64) for t in (q, k, v))
    else:
        q, k, v = (to_bf16(_normal(rng, *shape)) for _ in range(3))
        x, y, z = (from_bf16(t).astype(f64) for t in (q, k, v))
    score = x @ y.transpose(0, 2, 1) / 8
    score = np.where(np.tril(np.ones((length, length), bool)), score, -np.inf)
    e = np.exp(score - score.max(2, keepdims=True))
    weight = e / e.sum(2, keepdims=True)
    exact = weight @ z
    # the weights are rounded to the input type before the second product
    bound = rounding(kind, exact, HALF_ULP[kind] * 2 * (weight @ np.abs(z)) + 1e-5)
    args = [q, k, v, np.zeros_like(q), Scalar(length), Scalar(0.125 * math.log2(math.e), "f")]
    return Case(args, (-(-length // 64), heads), 3, exact, bound, kind == "bf16")


def conv3x3_f16(rng):
    size, channels, filters = 10, _size(rng, 10, 20), _size(rng, 17, 32)
    x = _normal(rng, size, size, channels).astype(f16)
    w = _normal(rng, 9 * channels, filters).astype(f16)
    padded = np.pad(x.astype(f64), ((1, 1), (1, 1), (0, 0)))
    taps = [padded[r : r + size, s : s + size] for r in range(3) for s in range(3)]
    flat = np.concatenate(taps, axis=2).reshape(size * size, -1)
    exact = flat @ w.astype(f64)
    inner = 2.0**-24 * 200 * (np.abs(flat) @ np.abs(w.astype(f64)))
    sizes = [Scalar(n) for n in (size, size, channels, filters)]
    args = [x, w, np.zeros((size * size, filters), f16), *sizes]
    return Case(args, (2, 1), 2, exact, rounding("f16", exact, inner))


def histogram_i32(rng):
    x = rng.integers(0, 256, 2048).astype(i32)
    exact = np.bincount(x, minlength=256).astype(f64)
    return Case([x, np.zeros(256, i32)], (2,), 1, exact, 0)


def scatter_add_f32(rng):
    n = _size(rng, 600, 1020)
    x, index = _normal(rng, n), rng.integers(0, 50, n).astype(i32)
    exact = np.zeros(64)
    np.add.at(exact, index, x.astype(f64))
    return Case([x, index, np.zeros(64, f32), Scalar(n)], _blocks(n, 512), 2, exact, 1e-5)


def gather_f32(rng):
    x, index = _normal(rng, 512), rng.integers(0, 512, 512).astype(i32)
    return Case([x, index, np.zeros(512, f32)], (1,), 2, x[index].astype(f64), 0)


def embedding_grad_f32(rng):
    grad, index = _normal(rng, 8, 200), rng.integers(0, 5, 8).astype(np.int64)
    exact = np.zeros((5, 200))
    np.add.at(exact, index, grad.astype(f64))
    return Case([grad, index, np.zeros((5, 200), f32), Scalar(200)], (8,), 2, exact, 1e-5)


def transpose_f16(rng):
    rows, cols = _size(rng, 66, 126), _size(rng, 66, 126)
    x = _normal(rng, rows, cols).astype(f16)
    args = [x, np.zeros((cols, rows), f16), Scalar(rows), Scalar(cols)]
    return Case(args, (2, 2), 1, x.T.astype(f64), 0)


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    function.__name__: function
    for function in (
        add_f32, add_bf16, gelu_bf16, silu_mul_bf16, sin_cos_f32, divide_i32, dropout_f32,
        rotary_bf16, softmax_f32, layer_norm_f32, rms_norm_bf16, cross_entropy_f32, sum_f32,
        argmax_f32, cumsum_f32, recurrence_f32, sort_f32, conv3x3_f16, histogram_i32,
        scatter_add_f32, gather_f32, embedding_grad_f32, transpose_f16,
    )
}  # fmt: skip
CASES |= {f"matmul_{k}": lambda rng, k=k: _matmul(rng, k) for k in ("f16", "bf16", "f32", "i8")}
CASES |= {f"attention_{k}": lambda rng, k=k: _attention(rng, k) for k in ("f16", "bf16")}
