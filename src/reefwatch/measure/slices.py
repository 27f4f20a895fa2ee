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
    1/sqrt(n), which a factor on the whole slice does not. Elements with the same result may all
    have been rounded in one direction, so they count as one. `bias` is a relative error that need
    not average out (TF32 cuts bits off, a shared statistic is off by some units).
    Source: ordinary least squares; Hoeffding's inequality bounds the tail for bounded errors.
    """
    power = xp.sum(truth * truth, 1)
    safe = xp.where(power > 0, power, 1.0)
    off = xp.sum((result - truth) * truth, 1) / safe
    excess = xp.maximum(xp.abs(off) - bias, 0.0)
    spread = xp.sqrt(xp.sum((allowed * truth) ** 2, 1)) / safe
    ratio = xp.where(power > 0, excess / xp.where(spread > 0, spread, 1.0), 0.0)
    ratio = xp.where(xp.isnan(ratio), 0.0, ratio)
    for index in xp.argsort(-ratio):
        if ratio[index] <= 1:
            break
        alike = _alike(xp, result[index], (allowed * truth)[index]) / safe[index]
        ratio[index] = min(ratio[index], excess[index] / alike)
        if ratio[index] >= ratio.max():
            break
    index = int(xp.argmax(ratio))
    return Slope(index, 1.0 + float(off[index]), float(ratio[index]), int(truth.shape[1]))


def _alike(xp: Any, result: Any, weights: Any) -> Any:
    """The norm of the weights, those of equal results added up first."""
    _, group = xp.unique(result, return_inverse=True)
    return xp.sqrt(xp.sum(xp.bincount(group.reshape(-1), xp.abs(weights)) ** 2))
