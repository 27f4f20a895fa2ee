"""Do two results of one kernel agree: within rounding of the coarsest dtype that took part.

The rule has two parts. First a bound from the dtype alone: so many units in the last place of the
larger of the value and the root mean square of its tensor (elements that cancel are as uncertain as
their neighbours). A difference beyond it is held against the kernel's own sensitivity: what the
result moves by when its inputs are moved by one unit in the last place. Integers agree exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reefwatch.core.claim import Tolerance
from reefwatch.measure.rounding import UNIT

COARSEST = ("f8e5m2", "f8e4m3", "bf16", "f16", "f32", "f64")
ULPS = {
    dtype: Tolerance(
        64.0 if dtype in ("f32", "f64") else 2.0,
        "ulp",
        "sums in another order and functions to about one ulp stay far below 64 ulp in f32; in 16 "
        "and 8 bits intermediate values that round apart differ by one or two",
    )
    for dtype in COARSEST
}
MOVED = Tolerance(
    8.0,
    "times the movement of the result under one ulp of its inputs",
    "two random movements understate the largest one",
)


@dataclass(frozen=True)
class Agreement:
    """How two results differ."""

    agrees: bool
    different: int
    """Elements beyond the bound."""
    of: int
    worst: float
    """The largest difference in units of the bound."""
    index: int = -1
    """Of the worst element."""
    values: tuple[float, float] = (0.0, 0.0)
    """There, and what the witness says."""


def coarsest(dtypes: Any) -> str:
    """The float dtype with the fewest digits among those that took part; "" for integers alone."""
    return next((dtype for dtype in COARSEST if dtype in dtypes), "")


def agree(np: Any, one: Any, other: Any, dtype: str, moved: Any = None) -> Agreement:
    """Hold a result against a witness's: arrays of one shape, in f64 or integers.

    `dtype` is the coarsest that took part, "" for exact. `moved` is how far each element moves when
    the inputs move by one ulp.
    """
    total = int(one.size)
    same = (one == other) | (np.isnan(one) & np.isnan(other) if one.dtype.kind == "f" else False)
    if not dtype or one.dtype.kind not in "f":
        away = ~same if moved is None else ~same & (moved == 0)
        share = away.astype(np.float64) * 2
    else:
        share = _share(np, one, other, dtype, moved)
        share[same] = 0.0
    if not total:
        return Agreement(True, 0, 0, 0.0)
    at = int(np.argmax(share))
    worst = float(share.reshape(-1)[at])
    values = (float(one.reshape(-1)[at]), float(other.reshape(-1)[at]))
    return Agreement(worst <= 1, int((share > 1).sum()), total, worst, at, values)


def _share(np: Any, one: Any, other: Any, dtype: str, moved: Any) -> Any:
    finite = other[np.isfinite(other)]
    scale = float(np.sqrt(np.mean(finite.astype(np.float64) ** 2))) if finite.size else 0.0
    with np.errstate(all="ignore"):
        bound = 2 * UNIT[dtype] * ULPS[dtype].limit * np.maximum(np.abs(other), scale)
        if moved is not None:
            typical = np.median(moved[np.isfinite(moved)]) if moved.size else 0.0
            bound = np.maximum(bound, MOVED.limit * np.maximum(moved, typical))
        share = np.abs(one - other) / bound
    # both wrong in the same way is agreement; one finite and the other not is none
    share[np.isnan(share)] = np.inf
    return share
