"""From a truth to the row that is recorded: errors in parts of what is allowed."""

from __future__ import annotations

from typing import Any

from reefwatch.gather.numerics.formula import Truth
from reefwatch.measure.rounding import LARGEST
from reefwatch.measure.slices import worst_slope

FEWEST = 4
"""A slice of fewer elements has no slope worth telling."""


def measure(xp: Any, told: Truth, dtype: str) -> dict[str, Any]:
    """The worst element and the worst slice of one output.

    `error` is the largest error over what is allowed there (1 is the limit); infinite where a
    finite value should be and is not, or the other way round.
    """
    values = xp.asarray(told.values, float) if not told.exact else xp.asarray(told.values)
    got = xp.asarray(told.got)
    if values.shape != got.shape:
        values = xp.broadcast_to(values, got.shape)
    row: dict[str, Any] = {
        "rule": told.rule,
        "output": told.output,
        "elements": int(got.size),
        "share": min(1.0, float(told.share)),
        "error": 0.0,
    }
    if got.size == 0:
        return row
    ratio = _exact(xp, values, got) if told.exact else _ratio(xp, values, got, told.allowed, dtype)
    at = int(xp.argmax(ratio))
    where = [int(i) for i in xp.unravel_index(at, got.shape)] if got.ndim else []
    row.update(
        error=float(ratio.flat[at]),
        wrong=int((ratio > 1).sum()),
        index=where,
        got=float(got.flat[at]),
        truth=float(values.flat[at]),
    )
    if not told.exact:
        allowed = xp.broadcast_to(told.allowed, got.shape)
        row["allowed"] = float(allowed.flat[at])
        if told.axis is not None and got.ndim > 1:
            _slices(xp, row, values, got, allowed, told.axis, told.bias)
    return row


def _exact(xp: Any, values: Any, got: Any) -> Any:
    same = values == got
    if got.dtype.kind == "f":
        same = same | (xp.isnan(values.astype(float)) & xp.isnan(got))
    return xp.where(same, 0.0, xp.inf)


def _ratio(xp: Any, values: Any, got: Any, allowed: Any, dtype: str) -> Any:
    largest = LARGEST[dtype]
    error = xp.abs(got - values)
    allowed = xp.broadcast_to(allowed, got.shape)
    ratio = xp.where(error == 0, 0.0, error / xp.where(allowed > 0, allowed, 1e-300))
    fine = xp.isfinite(values) & xp.isfinite(got)
    beyond = xp.abs(values) + allowed > largest  # may have overflowed, rightly
    full = xp.isinf(got) & (xp.sign(got) == xp.sign(values)) & beyond
    lost = xp.isnan(values) & xp.isnan(got)
    # an infinity that was computed in a narrower dtype may have become a NaN on the way
    both = ~xp.isfinite(values) & ~xp.isfinite(got)
    return xp.where(fine, ratio, xp.where(full | lost | both, 0.0, xp.inf))


def _slices(
    xp: Any, row: dict[str, Any], values: Any, got: Any, allowed: Any, axis: int, bias: float
) -> None:
    axis %= got.ndim
    parts = [
        xp.moveaxis(array, axis, 0).reshape(got.shape[axis], -1) for array in (got, values, allowed)
    ]
    if parts[0].shape[1] < FEWEST or not (
        xp.isfinite(parts[0]).all() and xp.isfinite(parts[1]).all()
    ):
        return
    worst = worst_slope(xp, *parts, bias=bias)
    row.update(slice=worst.index, axis=axis, slope=worst.slope, deviations=worst.deviations)
