"""Kernels that move, gather or add into memory."""

import triton
import triton.language as tl


@triton.jit
def histogram(x_ptr, out_ptr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x_ptr + at), BINS)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), counts)


@triton.jit
def scatter_add(x_ptr, index_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    index = tl.load(index_ptr + at, mask=inside, other=0)
    tl.atomic_add(out_ptr + index, tl.load(x_ptr + at, mask=inside, other=0.0), mask=inside)


@triton.jit
def gather(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.gather(tl.load(x_ptr + at), tl.load(index_ptr + at), 0))


@triton.jit
def embedding_grad(grad_ptr, index_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    grad = tl.load(grad_ptr + row * width + at, mask=at < width, other=0.0)
    tl.atomic_add(out_ptr + tl.load(index_ptr + row) * width + at, grad, mask=at < width)


@triton.jit
def transpose(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=inside)
    out_in = (c[:, None] < cols) & (r[None, :] < rows)
    tl.store(out_ptr + c[:, None] * rows + r[None, :], tl.trans(x), mask=out_in)


SPECS = {
    "histogram_i32": (
        histogram,
        {"x_ptr": "*i32", "out_ptr": "*i32"},
        {"BLOCK": 1024, "BINS": 256},
    ),
    "scatter_add_f32": (
        scatter_add,
        {"x_ptr": "*fp32", "index_ptr": "*i32", "out_ptr": "*fp32", "count": "i32"},
        {"BLOCK": 512},
    ),
    "gather_f32": (
        gather,
        {"x_ptr": "*fp32", "index_ptr": "*i32", "out_ptr": "*fp32"},
        {"BLOCK": 512},
    ),
    "embedding_grad_f32": (
        embedding_grad,
        {"grad_ptr": "*fp32", "index_ptr": "*i64", "out_ptr": "*fp32", "width": "i32"},
        {"BLOCK": 256},
    ),
    "transpose_f16": (
        transpose,
        {"x_ptr": "*fp16", "out_ptr": "*fp16", "rows": "i32", "cols": "i32"},
        {"BLOCK": 64},
    ),
}
