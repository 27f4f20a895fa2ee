"""Errors of slices: one bad channel of many does not show in the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Slope:
    """The slice whose least-squares slope of result on truth is farthest from 1, in deviations."""

    index: int
    slope: float
    deviations: float
    """How far the slope is from 1, in standard deviations of what rounding makes of it."""
    elements: int


def worst_slope(xp: Any, result: Any, truth: Any, allowed: Any, *, bias: float = 0.0) -> Slope:
    """Over the rows of (slices, elements): the slope <result, truth> / <truth, truth> against 1.

    Rounding errors with bounds `allowed`, independent and of zero mean, move the slope by a
    standard deviation of at most sqrt(sum((allowed * truth)^2)) / sum(truth^2): they average out as
    1/sqrt(n), which a factor on the whole slice does not. `bias` is a relative error that need not
    average out (one unit of the accumulator, say).
    Source: ordinary least squares; Hoeffding's inequality bounds the tail for bounded errors.
    """
    power = xp.sum(truth * truth, 1)
    safe = xp.where(power > 0, power, 1.0)
    slope = xp.sum((result - truth) * truth, 1) / safe
    spread = xp.sqrt(xp.sum((allowed * truth) ** 2, 1)) / safe + bias
    ratio = xp.where(power > 0, xp.abs(slope) / xp.where(spread > 0, spread, 1.0), 0.0)
    ratio = xp.where(xp.isnan(ratio), 0.0, ratio)
    index = int(xp.argmax(ratio))
    return Slope(index, 1.0 + float(slope[index]), float(ratio[index]), int(truth.shape[1]))
