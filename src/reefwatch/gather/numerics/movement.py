"""Ops that move elements and compute nothing: every bit is to agree."""

from __future__ import annotations

from typing import Any

from reefwatch.gather.numerics.formula import Inputs, Truth, formula

MOST = 1 << 22
"""Elements that are moved again; larger ones are judged in part by their first axis."""


def _exact(op: Inputs, values: Any, got: Any = None, share: float = 1.0) -> list[Truth]:
    got = op.f64(op.outs[0]) if got is None else got
    return [Truth(values.reshape(got.shape), got, exact=True, rule="exact", share=share)]


@formula("aten.cat", "aten.stack")
def cat(op: Inputs) -> list[Truth] | None:
    parts = op.args[0]
    if op.outs[0].numel() > MOST or any(part.is_complex() for part in parts):
        return None
    # a 1-dim empty tensor may stand among others of any shape
    arrays = [op.f64(part) for part in parts if part.numel() or part.dim() != 1]
    if not arrays or len({part.dtype for part in parts}) > 1:
        return None
    axis = op.get(1, "dim", 0)
    made = op.xp.stack(arrays, axis) if ".stack" in op.name else op.xp.concatenate(arrays, axis)
    return _exact(op, made)


@formula("aten.index_select")
def index_select(op: Inputs) -> list[Truth] | None:
    x, axis, at = op.args[:3]
    if op.outs[0].numel() > MOST or x.numel() > MOST or x.is_complex() or not x.dim():
        return None
    return _exact(op, op.xp.take(op.f64(x), op.f64(at).reshape(-1), axis))


@formula("aten.gather")
def gather(op: Inputs) -> list[Truth] | None:
    x, axis, at = op.args[:3]
    if x.numel() > MOST or x.is_complex() or not x.dim() or x.dim() != at.dim():
        return None
    source, places = op.f64(x), op.f64(at)
    cut = tuple(slice(0, n) if d != axis % x.dim() else slice(None) for d, n in enumerate(at.shape))
    return _exact(op, op.xp.take_along_axis(source[cut], places, axis))


@formula("aten.masked_fill", "aten.masked_fill_")
def masked_fill(op: Inputs) -> list[Truth] | None:
    x, mask, value = op.args[:3]
    out = op.outs[0]
    if x.numel() > MOST or x.is_complex():
        return None
    fill = out.new_full((), value if not hasattr(value, "item") else value.item())
    values = op.xp.where(op.f64(mask.expand(out.shape)), op.f64(fill), op.f64(x.expand(out.shape)))
    return _exact(op, values)


@formula("aten.tril", "aten.triu")
def triangle(op: Inputs) -> list[Truth] | None:
    x = op.args[0]
    if x.numel() > MOST or x.is_complex():
        return None
    keep = op.xp.tril if ".tril" in op.name else op.xp.triu
    return _exact(op, keep(op.f64(x), op.get(1, "diagonal", 0)))


@formula("aten.constant_pad_nd")
def pad(op: Inputs) -> list[Truth] | None:
    x, widths, value = op.args[0], list(op.args[1]), op.get(2, "value", 0)
    if op.outs[0].numel() > MOST or x.is_complex() or min(widths, default=0) < 0:
        return None
    pairs = [(0, 0)] * (x.dim() - len(widths) // 2)
    pairs += [(widths[at], widths[at + 1]) for at in range(len(widths) - 2, -1, -2)]
    fill = float(op.outs[0].new_full((), value).item())
    return _exact(op, op.xp.pad(op.f64(x), pairs, constant_values=fill))


@formula("aten.slice_backward", "aten.select_backward")
def part_backward(op: Inputs) -> list[Truth] | None:
    grad, shape, axis = op.args[:3]
    values = op.xp.zeros(tuple(shape))
    if values.size > MOST:
        return None
    axis %= len(shape)
    if ".select" in op.name:
        at: Any = op.args[3]
    else:
        at = slice(*_bounds(op.args[3], op.args[4], shape[axis]), op.args[5])
    values[(slice(None),) * axis + (at,)] = op.f64(grad)
    return _exact(op, values)


def _bounds(start: Any, stop: Any, length: int) -> tuple[int, int]:
    """A slice's ends as torch reads them."""
    ends = []
    for end, default in ((start, 0), (stop, length)):
        end = default if end is None else end
        end = end + length if end < 0 else end
        ends.append(max(0, min(int(end), length)))
    return ends[0], ends[1]


@formula("aten.unsafe_split", "aten.split_copy", "aten.unsafe_chunk")
def split(op: Inputs) -> list[Truth] | None:
    x, axis = op.args[0], op.get(2, "dim", 0)
    if x.numel() > MOST or x.is_complex():
        return None
    whole, begin, told = op.f64(x), 0, []
    for place, out in enumerate(op.outs):
        end = begin + out.shape[axis]
        at = (slice(None),) * (axis % x.dim()) + (slice(begin, end),)
        told.append(Truth(whole[at], op.f64(out), exact=True, rule="exact", output=place))
        begin = end
    return told
