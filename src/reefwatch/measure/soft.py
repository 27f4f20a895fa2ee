"""Elements whose gradient is rounding alone, under an optimizer that scales by the gradient's size.

Adam and its kin step by about the rate whatever the gradient's size: where a gradient is zero on
one machine and 1e-12 on another, or has another sign, the parameter parts by whole steps and both
are right. Such elements are not judged; the rest of the parameter is. Plain Python, no arrays.
Source: Kingma and Ba, Adam, ICLR 2015, section 2.1 (the effective step is bounded by the rate).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reefwatch.measure.sketches import compared

SHARE = {"f64": 1e-6, "f32": 1e-3, "f16": 0.3, "bf16": 0.3}
"""Of the gradient's root mean square, below which an element may be rounding alone: some hundred
times what rounding makes of a sum of a few thousand terms in that dtype."""
WAYS = 2.0
"""Two right runs step by the rate each, in opposite ways."""


class Soft:
    """Follows, by parameter, at which of the told positions the gradient says nothing."""

    def __init__(self) -> None:
        self._places: dict[str, set[int]] = {}

    def compared(
        self, row: Mapping[str, Any], kept: Mapping[str, Any], same: bool
    ) -> dict[str, Any]:
        """A row of this run against the reference's (measure/sketches.py), with its `drift`."""
        drift = 0.0
        if row["phase"] == "gradient":
            self.gradient(row, kept)
        elif row["phase"] in ("weight", "parameter"):
            kept, drift = self.parameter(row, kept)
        told = compared(kept, row["sketch"], same)
        return {**told, "drift": drift} if drift else told

    def gradient(self, row: Mapping[str, Any], kept: Mapping[str, Any] | None) -> None:
        """Learn from a gradient of both sides."""
        one = None if kept is None else kept["sketch"]
        two = row["sketch"]
        if one is None or two is None or len(one["at"]) != len(two["at"]):
            return
        least = SHARE.get(two["dtype"], SHARE["f32"]) * one["norm"]
        least /= math.sqrt(max(math.prod(one["shape"]), 1))
        found = {
            place
            for place, (a, b) in enumerate(zip(one["at"], two["at"], strict=True))
            if a != b and min(abs(a), abs(b)) < least
        }
        if found:
            self._places.setdefault(row["module"], set()).update(found)

    def parameter(
        self, row: Mapping[str, Any], kept: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], float]:
        """(the reference's row with soft positions as they are here, how far norms may part)."""
        rate = max(float(row.get("rate") or 0), float(kept.get("rate") or 0))
        places = self._places.get(row["module"])
        one, two = kept["sketch"], row["sketch"]
        if not rate or not places or one is None or two is None:
            return kept, 0.0
        if len(one["at"]) != len(two["at"]):
            return kept, 0.0
        at = [
            b if place in places else a
            for place, (a, b) in enumerate(zip(one["at"], two["at"], strict=True))
        ]
        size = one["norm"] / math.sqrt(max(math.prod(one["shape"]), 1))
        drift = WAYS * rate * (row["step"] + 1) / max(size, 1e-300)
        return {**kept, "sketch": {**one, "at": at}}, drift
