"""What rounding may do to a formula: its change when its inputs are moved by a few units."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from reefwatch.gather.numerics.formula import Inputs
from reefwatch.measure.rounding import UNIT, last_place

TRIES, MANY = 2, 8
"""How often the inputs are moved; `MANY` where an output is too small for a typical change."""
SMALL = 64
FACTOR = 16.0
"""Times the change that one unit in the inputs makes. Healthy kernels stay well below
the bound (scripts/verify/numerics.py prints the margin)."""
SURE = 4.0
"""Standard deviations of a sum that is added up one after the other, as some kernels do."""
NARROW = 4.0
"""The same where intermediate results are rounded to 16 bits: once each."""
ULPS = 8
"""Half units of the inner dtype that a result may be off though no input moves it: the last
function of a formula (1 / sqrt(variance + eps) of a row that is constant)."""
WHOLE = 0.05
"""Of the typical change of a whole output, what every element of it is allowed."""
ROW = 0.5
"""The same where each row has one number."""
MOVE = 2.0**-26
"""Relative move of the inputs: large against float64, small against what bends a function."""


def allowed(
    op: Inputs,
    function: Callable[..., list[Any]],
    inputs: list[Any],
    values: list[Any],
    length: int,
    kinds: list[str] | None = None,
) -> list[Any]:
    """How far each element of each output may be off; as arrays of the outputs' shapes.

    The last place of the output's dtype, and `FACTOR` units of the inner dtype through the formula,
    more for long sums. `kinds` are the dtypes of the outputs, where they are not all that of the
    first. The change is that of the element itself or the typical one of its slice, whichever is
    larger. Source: first-order backward error analysis, Higham, section 1.5.
    """
    xp = op.xp
    growth = factor_of(op, length) / MOVE
    generator = xp.random.RandomState(1)
    moved = [xp.zeros(value.shape) for value in values]
    tries = TRIES if min(value.size for value in values) > SMALL else MANY
    for turn in range(tries + 1):
        # the last time all together: the errors of a long sum need not be independent
        near = [_move(xp, generator, array, turn == tries) for array in inputs]
        for kept, value, other in zip(moved, values, function(*near), strict=True):
            change = xp.abs(other - value)
            xp.maximum(kept, xp.where(xp.isfinite(change), change, 0.0), out=kept)
    kinds = kinds or [op.dtype] * len(values)
    return [
        last_place(xp, value, kind) * 1.01
        + ULPS * UNIT[op.compute] * xp.abs(value)
        + growth * _smooth(xp, change)
        for value, change, kind in zip(values, moved, kinds, strict=True)
    ]


def factor_of(op: Inputs, length: int) -> float:
    """How many times the relative change of its inputs a result may be off, sums of `length`."""
    inner = op.extra.get("inner", op.compute)
    factor = FACTOR if inner == op.compute else NARROW
    return factor * UNIT[inner] + SURE * math.sqrt(max(length, 1)) * UNIT[op.compute]


def _move(xp: Any, generator: Any, array: Any, together: bool) -> Any:
    if array.dtype.kind != "f":
        return array
    if together:
        return array * (1 + MOVE)
    signs = generator.randint(0, 2, array.shape) * 2 - 1
    return array * (1 + signs * MOVE)


def _smooth(xp: Any, change: Any) -> Any:
    """The largest of the own change, the typical one along the last axis, a part of that of all.

    An element whose terms cancel exactly moves with none of its inputs, and is rounded too. Where
    there is one number per row, few draws say little of a row: a part of all counts then.
    """
    if change.size < 2:
        return change
    squares = change * change
    if change.shape[-1] < 2:
        return xp.maximum(change, ROW * xp.sqrt(squares.mean()))
    typical = xp.sqrt(squares.mean(-1, keepdims=True))
    return xp.maximum(xp.maximum(change, typical), WHOLE * xp.sqrt(squares.mean()))
