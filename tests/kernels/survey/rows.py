"""Kernels that reduce or scan one row at a time."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, out_ptr, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < width, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * stride + at, e / tl.sum(e, 0), mask=at < width)


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, stride, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    x = tl.load(x_ptr + row * stride + at, mask=inside, other=0.0)
    mean = tl.sum(x, 0) / width
    centred = tl.where(inside, x - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / width + eps)
    weight = tl.load(weight_ptr + at, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + row * stride + at, centred * scale * weight + bias, mask=inside)


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, stride, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < width, other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, 0) / width + eps)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < width, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=at < width, other=0.0).to(tl.float32)
        y = (x * scale * weight).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + row * stride + at, y, mask=at < width)


@triton.jit
def cross_entropy(logits_ptr, target_ptr, loss_ptr, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    logits = tl.load(logits_ptr + row * stride + at, mask=at < width, other=-float("inf"))
    target = tl.load(target_ptr + row)
    top = tl.max(logits, 0)
    total = top + tl.log(tl.sum(tl.exp(logits - top), 0))
    tl.store(loss_ptr + row, total - tl.load(logits_ptr + row * stride + target))


@triton.jit
def block_sum(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, 0))


@triton.jit
def argmax(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + at, mask=at < width, other=-float("inf"))
    tl.store(out_ptr + row, tl.argmax(x, 0))


@triton.jit
def cumsum(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + at, mask=at < width, other=0.0)
    tl.store(out_ptr + row * width + at, tl.cumsum(x, 0), mask=at < width)


@triton.jit
def _chain(decay, value, later_decay, later_value):
    return decay * later_decay, value * later_decay + later_value


@triton.jit
def recurrence(decay_ptr, value_ptr, out_ptr, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * width + tl.arange(0, BLOCK)
    pair = (tl.load(decay_ptr + at), tl.load(value_ptr + at))
    _, state = tl.associative_scan(pair, 0, _chain)
    tl.store(out_ptr + at, state)


@triton.jit
def sort(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at)))


F, B, N = "*fp32", "*bf16", "i32"
SPECS = {
    "softmax_f32": (
        softmax,
        {"x_ptr": F, "out_ptr": F, "stride": N, "width": N},
        {"BLOCK": 1024},
    ),
    "layer_norm_f32": (
        layer_norm,
        {
            "x_ptr": F,
            "weight_ptr": F,
            "bias_ptr": F,
            "out_ptr": F,
            "stride": N,
            "width": N,
            "eps": "fp32",
        },
        {"BLOCK": 1024},
    ),
    "rms_norm_bf16": (
        rms_norm,
        {"x_ptr": B, "weight_ptr": B, "out_ptr": B, "stride": N, "width": N, "eps": "fp32"},
        {"BLOCK": 512},
    ),
    "cross_entropy_f32": (
        cross_entropy,
        {"logits_ptr": F, "target_ptr": "*i64", "loss_ptr": F, "stride": N, "width": N},
        {"BLOCK": 1024},
    ),
    "sum_f32": (block_sum, {"x_ptr": F, "out_ptr": F, "count": N}, {"BLOCK": 1024}),
    "argmax_f32": (argmax, {"x_ptr": F, "out_ptr": "*i32", "width": N}, {"BLOCK": 1024}),
    "cumsum_f32": (cumsum, {"x_ptr": F, "out_ptr": F, "width": N}, {"BLOCK": 1024}),
    "recurrence_f32": (
        recurrence,
        {"decay_ptr": F, "value_ptr": F, "out_ptr": F, "width": N},
        {"BLOCK": 1024},
    ),
    "sort_f32": (sort, {"x_ptr": F, "out_ptr": F}, {"BLOCK": 512}),
}
