"""Kernels that treat every element alone."""

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    total = tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, total, mask=inside)


@triton.jit
def gelu(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count).to(tl.float32)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=at < count)


@triton.jit
def silu_mul(gate_ptr, up_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    gate = tl.load(gate_ptr + at, mask=inside).to(tl.float32)
    up = tl.load(up_ptr + at, mask=inside).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def sin_cos(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(out_ptr + at, tl.sin(x) + tl.cos(x), mask=at < count)


@triton.jit
def divide(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(x_ptr + at, mask=inside, other=0)
    y = tl.load(y_ptr + at, mask=inside, other=1)
    tl.store(out_ptr + at, x // y + (x % y), mask=inside)


@triton.jit
def dropout(x_ptr, out_ptr, count, rate, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) > rate
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(out_ptr + at, tl.where(kept, x / (1.0 - rate), 0.0), mask=at < count)


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, out_ptr, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, HALF)
    left = tl.load(x_ptr + row * 2 * HALF + at).to(tl.float32)
    right = tl.load(x_ptr + row * 2 * HALF + HALF + at).to(tl.float32)
    cos = tl.load(cos_ptr + row * HALF + at)
    sin = tl.load(sin_ptr + row * HALF + at)
    kind = out_ptr.dtype.element_ty
    tl.store(out_ptr + row * 2 * HALF + at, (left * cos - right * sin).to(kind))
    tl.store(out_ptr + row * 2 * HALF + HALF + at, (right * cos + left * sin).to(kind))


SPECS = {
    "add_f32": (
        add,
        {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "count": "i32"},
        {"BLOCK": 1024},
    ),
    "add_bf16": (
        add,
        {"x_ptr": "*bf16", "y_ptr": "*bf16", "out_ptr": "*bf16", "count": "i32"},
        {"BLOCK": 1024},
    ),
    "gelu_bf16": (
        gelu,
        {"x_ptr": "*bf16", "out_ptr": "*bf16", "count": "i32"},
        {"BLOCK": 1024},
    ),
    "silu_mul_bf16": (
        silu_mul,
        {"gate_ptr": "*bf16", "up_ptr": "*bf16", "out_ptr": "*bf16", "count": "i32"},
        {"BLOCK": 1024},
    ),
    "sin_cos_f32": (
        sin_cos,
        {"x_ptr": "*fp32", "out_ptr": "*fp32", "count": "i32"},
        {"BLOCK": 512},
    ),
    "divide_i32": (
        divide,
        {"x_ptr": "*i32", "y_ptr": "*i32", "out_ptr": "*i32", "count": "i32"},
        {"BLOCK": 512},
    ),
    "dropout_f32": (
        dropout,
        {"x_ptr": "*fp32", "out_ptr": "*fp32", "count": "i32", "rate": "fp32", "seed": "i32"},
        {"BLOCK": 1024},
    ),
    "rotary_bf16": (
        rotary,
        {"x_ptr": "*bf16", "cos_ptr": "*fp32", "sin_ptr": "*fp32", "out_ptr": "*bf16"},
        {"HALF": 64},
    ),
}
