"""Matrix products and convolutions: rigorous bounds, sampled rows and columns when large.

Legend of shapes: N batch, M rows, K summed, C columns or channels, O output channels, P positions.
"""

from __future__ import annotations

import math
from typing import Any

from reefwatch.gather.numerics.formula import Inputs, Truth, formula, spread
from reefwatch.measure.rounding import last_place, product_bound

MOST = 1e8
"""Multiplications of one judged product; larger ones are sampled."""
SURE = 8.0
"""Standard deviations of the probabilistic bound: one in 10^14 elements is beyond by chance."""


def _truth(
    op: Inputs, left: Any, right: Any, got: Any, more: Any = None, scale: float = 1.0, **kw: Any
) -> Truth:
    """Left @ right * scale + more, with its bound; (..., M, K) @ (..., K, C)."""
    xp = op.xp
    values = left @ right * scale
    absolute = xp.abs(left) @ xp.abs(right) * abs(scale)
    if more is not None:
        values = values + more
        absolute = absolute + xp.abs(more)
    length = left.shape[-1] + (more is not None)
    allowed = product_bound(
        xp, values, absolute, length, accumulate=op.compute, result=op.dtype, sure=SURE
    )
    if op.loose:
        allowed = allowed + 2 * op.loose * absolute
    return Truth(values, got, allowed, rule="rounding bound", bias=2 * op.loose, **kw)


def _pick(
    op: Inputs, left: Any, right: Any, out: Any, bias: Any, beta: float, alpha: float
) -> list[Truth]:
    """Few rows with all columns, and all rows with few columns, where the whole is too large.

    left (M, K), right (K, C), out (M, C); bias broadcasts to out.
    """
    rows, length, columns = left.shape[0], left.shape[1], right.shape[1]
    more = None if bias is None else bias.expand(out.shape)
    whole = rows * length * columns
    cuts: list[tuple[Any, Any]] = [(slice(None), slice(None))]
    if whole > MOST:
        few_rows = spread(rows, max(2, int(MOST / (length * columns))), op.turn)
        few_columns = spread(columns, max(2, int(MOST / (length * rows))), op.turn)
        cuts = [(few_rows, slice(None)), (slice(None), few_columns)]
    found = []
    for at, to in cuts:
        part = None if more is None else op.f64(more[at][:, to]) * beta
        got = op.f64(out[at][:, to])
        a, b = op.f64(left[at]), op.f64(right[:, to])
        found.append(
            _truth(op, a, b, got, part, alpha, axis=1, share=got.size / max(out.numel(), 1))
        )
    return found


@formula("aten.mm")
def mm(op: Inputs) -> list[Truth]:
    return _pick(op, op.args[0], op.args[1], op.outs[0], None, 1.0, 1.0)


@formula("aten.addmm")
def addmm(op: Inputs) -> list[Truth]:
    beta, alpha = op.kwargs.get("beta", 1), op.kwargs.get("alpha", 1)
    bias = op.args[0] if beta else None
    return _pick(op, op.args[1], op.args[2], op.outs[0], bias, beta, alpha)


@formula("aten.mv")
def mv(op: Inputs) -> list[Truth]:
    out = op.outs[0][:, None]
    return _pick(op, op.args[0], op.args[1][:, None], out, None, 1.0, 1.0)


@formula("aten.dot", "aten.vdot")
def dot(op: Inputs) -> list[Truth] | None:
    left, right = op.args[0], op.args[1]
    if left.is_complex():
        return None
    out = op.outs[0].reshape(1, 1)
    return _pick(op, left[None], right[:, None], out, None, 1.0, 1.0)


@formula("aten.bmm", "aten.baddbmm")
def bmm(op: Inputs) -> list[Truth]:
    """(N, M, K) @ (N, K, C): as many of the batch as fit, each sampled by itself if it is large."""
    first = op.name.startswith("aten.baddbmm")
    left, right = op.args[first], op.args[first + 1]
    beta, alpha = op.kwargs.get("beta", 1), op.kwargs.get("alpha", 1)
    out, each = op.outs[0], left.shape[1] * left.shape[2] * right.shape[2]
    if each > MOST:
        chosen = spread(left.shape[0], 2, op.turn)
        bias = op.args[0].expand(out.shape) if first and beta else None
        found = []
        for at in chosen:
            part = None if bias is None else bias[at]
            found += _pick(op, left[at], right[at], out[at], part, beta, alpha)
        return found
    chosen = spread(left.shape[0], max(1, int(MOST / max(each, 1))), op.turn)
    more = op.f64(op.args[0].expand(out.shape)[chosen]) * beta if first and beta else None
    a, b, got = op.f64(left[chosen]), op.f64(right[chosen]), op.f64(out[chosen])
    return [_truth(op, a, b, got, more, alpha, axis=0, share=got.size / max(out.numel(), 1))]


def _pair(value: Any, dims: int) -> list[int]:
    kept = list(value)
    return kept * dims if len(kept) == 1 else kept


class Window:
    """The geometry of a convolution over `dims` axes."""

    def __init__(self, op: Inputs, weight: Any, place: int) -> None:
        self.dims = weight.dim() - 2
        self.kernel = list(weight.shape[2:])
        self.stride = _pair(op.args[place], self.dims)
        self.padding = _pair(op.args[place + 1], self.dims)
        self.dilation = _pair(op.args[place + 2], self.dims)
        self.transposed = bool(op.args[place + 3])
        self.groups = int(op.args[place + 5])

    def padded(self, xp: Any, x: Any) -> Any:
        """X (N, C, *space) with its zeros around."""
        return xp.pad(x, [(0, 0), (0, 0), *((p, p) for p in self.padding)])

    def windows(self, xp: Any, padded: Any, space: Any) -> Any:
        """(N, C, *out, *kernel), a view of `padded`."""
        steps = padded.strides[2:]
        shape = (*padded.shape[:2], *space, *self.kernel)
        strides = (
            *padded.strides[:2],
            *(a * b for a, b in zip(steps, self.stride, strict=True)),
            *(a * b for a, b in zip(steps, self.dilation, strict=True)),
        )
        return xp.lib.stride_tricks.as_strided(padded, shape, strides, writeable=False)


@formula(
    "aten.convolution",
    "aten._convolution",
    "aten.mkldnn_convolution",
    "aten.cudnn_convolution",
    "aten.miopen_convolution",
)
def convolution(op: Inputs) -> list[Truth] | None:
    """All channels at P places: x (N, C, *), weight (O, C/groups, *kernel), out (N, O, *)."""
    if op.name.split(".")[1] not in ("convolution", "_convolution"):
        return None
    xp, x, weight, bias, out = op.xp, op.args[0], op.args[1], op.args[2], op.outs[0]
    geometry = Window(op, weight, 3)
    if geometry.transposed or x.dim() != weight.dim():
        return None
    count, space = x.shape[0], out.shape[2:]
    taps = math.prod(weight.shape[1:])
    positions = math.prod(space)
    room = max(8, int(MOST / max(taps * out.shape[1], 1)))
    images = spread(count, max(1, min(count, room // max(min(positions, 64), 1))), op.turn)
    at = spread(positions, max(4, room // len(images)), op.turn)
    ahead = geometry.windows(xp, geometry.padded(xp, op.f64(x[images])), space)
    places = xp.unravel_index(xp.asarray(at), tuple(space))
    chosen = (slice(None), slice(None), *places)
    patches = ahead[chosen]  # (N, C, P, *kernel)
    patches = xp.moveaxis(patches, 2, 1).reshape(len(images), len(at), geometry.groups, taps)
    filters = op.f64(weight).reshape(geometry.groups, -1, taps)
    left = xp.moveaxis(patches, 2, 0).reshape(geometry.groups, -1, taps)
    got = op.f64(out[images].reshape(len(images), out.shape[1], -1)[:, :, at])
    got = xp.moveaxis(got, 1, 0).reshape(geometry.groups, filters.shape[1], -1)
    more = None if bias is None else op.f64(bias).reshape(geometry.groups, -1, 1)
    told = _truth(op, filters, xp.swapaxes(left, 1, 2), got, more)
    told.values, told.got, told.allowed = (
        array.reshape(out.shape[1], -1) for array in (told.values, told.got, told.allowed)
    )
    told.axis, told.share = 0, told.got.size / max(out.numel(), 1)
    return [told]


@formula("aten.convolution_backward")
def convolution_backward(op: Inputs) -> list[Truth] | None:
    """(grad_input, grad_weight, grad_bias); grad_out (N, O, *out), x (N, C, *space)."""
    grad, x, weight = op.args[0], op.args[1], op.args[2]
    shifted = Inputs(
        op.xp, op.name, op.args, op.kwargs, op.outs, op.dtype, op.compute, op.loose, op.turn
    )
    geometry = Window(shifted, weight, 4)
    if geometry.transposed or x.dim() != weight.dim() or geometry.groups != 1:
        return None
    wanted = op.args[10]
    found: list[Truth] = []
    if wanted[0] and op.outs[0] is not None:
        found.append(_grad_input(op, geometry, grad, x, weight))
    if wanted[1] and op.outs[1] is not None:
        found += _grad_weight(op, geometry, grad, x)
    if wanted[2] and op.outs[2] is not None:
        found.append(_grad_bias(op, grad))
    return found


def _taps(op: Inputs, geometry: Window) -> Any:
    return op.xp.ndindex(*geometry.kernel)


def _hit(geometry: Window, tap: Any, space: Any) -> tuple[slice, ...]:
    """Where in the padded input the tap falls, over all output positions."""
    where = []
    for axis, out in enumerate(space):
        first = tap[axis] * geometry.dilation[axis]
        step = geometry.stride[axis]
        where.append(slice(first, first + step * (out - 1) + 1, step))
    return tuple(where)


def _grad_input(op: Inputs, geometry: Window, grad: Any, x: Any, weight: Any) -> Truth:
    xp, cost = op.xp, grad[0].numel() * math.prod(weight.shape[1:])
    images = spread(x.shape[0], max(1, int(MOST / max(cost, 1))), op.turn)
    back, filters = op.f64(grad[images]), op.f64(weight)
    padded = geometry.padded(xp, xp.zeros((len(images), *x.shape[1:])))
    absolute = xp.zeros_like(padded)
    for tap in _taps(op, geometry):
        one = (slice(None), slice(None), *tap)
        piece = filters[one]  # (O, C)
        at = (slice(None), slice(None), *_hit(geometry, tap, grad.shape[2:]))
        padded[at] += xp.moveaxis(xp.tensordot(piece, back, (0, 1)), 0, 1)
        absolute[at] += xp.moveaxis(xp.tensordot(xp.abs(piece), xp.abs(back), (0, 1)), 0, 1)
    inner = tuple(slice(p, p + n) for p, n in zip(geometry.padding, x.shape[2:], strict=True))
    inside = (slice(None), slice(None), *inner)
    values, absolute = padded[inside], absolute[inside]
    length = weight.shape[0] * math.prod(geometry.kernel)
    return _bounded(op, values, absolute, op.f64(op.outs[0][images]), length, 0, 1, x.numel())


def _grad_weight(op: Inputs, geometry: Window, grad: Any, x: Any) -> list[Truth]:
    xp, weight = op.xp, op.outs[1]
    cost = grad[:, 0].numel() * math.prod(geometry.kernel)
    room = int(MOST / max(cost, 1))
    few_out = spread(weight.shape[0], max(1, room // weight.shape[1]), op.turn)
    few_in = spread(weight.shape[1], max(1, room // weight.shape[0]), op.turn)
    cuts: list[tuple[Any, Any]] = [(few_out, list(range(weight.shape[1])))]
    if len(few_out) < weight.shape[0]:
        cuts.append((list(range(weight.shape[0])), few_in))
    found = []
    for outs, ins in cuts:
        back = op.f64(grad[:, outs])
        padded = geometry.padded(xp, op.f64(x[:, ins]))
        values = xp.zeros((len(outs), len(ins), *geometry.kernel))
        absolute = xp.zeros_like(values)
        axes = [0, *range(2, grad.dim())]
        for tap in _taps(op, geometry):
            hit = (slice(None), slice(None), *_hit(geometry, tap, grad.shape[2:]))
            piece, at = padded[hit], (slice(None), slice(None), *tap)
            values[at] = xp.tensordot(back, piece, (axes, axes))
            absolute[at] = xp.tensordot(xp.abs(back), xp.abs(piece), (axes, axes))
        got = op.f64(weight[outs][:, ins])
        length = grad[:, 0].numel()
        found.append(_bounded(op, values, absolute, got, length, 1, 0, weight.numel()))
    return found


def _grad_bias(op: Inputs, grad: Any) -> Truth:
    back = op.f64(grad)
    axes = (0, *range(2, grad.dim()))
    values, absolute = back.sum(axes), op.xp.abs(back).sum(axes)
    got = op.f64(op.outs[2])
    return _bounded(op, values, absolute, got, grad[:, 0].numel(), 2, 0, got.size)


def _bounded(
    op: Inputs, values: Any, absolute: Any, got: Any, length: int, output: int, axis: int, of: int
) -> Truth:
    allowed = product_bound(
        op.xp, values, absolute, length, accumulate=op.compute, result=op.dtype, sure=SURE
    )
    allowed = allowed + 2 * op.loose * absolute
    return Truth(
        values,
        got,
        allowed,
        rule="rounding bound",
        axis=axis,
        output=output,
        bias=2 * op.loose,
        share=got.size / max(of, 1),
    )


@formula("aten.sum", "aten.mean")
def total(op: Inputs) -> list[Truth] | None:
    """Sums and means over some axes, or all."""
    x, out = op.args[0], op.outs[0]
    if not x.is_floating_point() or not out.is_floating_point():
        return None
    axes = op.get(1, "dim")
    axes = [axes] if isinstance(axes, int) else axes
    kept = tuple(a % x.dim() for a in axes) if axes else tuple(range(x.dim()))
    values, keep = op.f64(x), bool(op.get(2, "keepdim", False))
    summed = values.sum(kept, keepdims=keep)
    absolute = op.xp.abs(values).sum(kept, keepdims=keep)
    length = max(1, math.prod(x.shape[a] for a in kept))
    if op.name.startswith("aten.mean"):
        summed, absolute = summed / length, absolute / length
    got = op.f64(out)
    allowed = product_bound(
        op.xp, summed, absolute, length, accumulate=op.compute, result=op.dtype, sure=SURE
    )
    return [
        Truth(summed.reshape(got.shape), got, allowed.reshape(got.shape), rule="rounding bound")
    ]


def rounded(op: Inputs, values: Any, terms: Any) -> Any:
    """The bound of a result that is rounded once, from `terms` computed in the inner dtype."""
    from reefwatch.measure.rounding import UNIT

    return last_place(op.xp, values, op.dtype) + UNIT[op.compute] * terms
