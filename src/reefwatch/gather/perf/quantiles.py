"""Quantiles of any number of positive values in bounded memory."""

from __future__ import annotations

import math
from collections import Counter

RELATIVE_ERROR = 0.005
"""A quantile is off by no more than this share of its true value."""

_BASE = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG = math.log(_BASE)
_LEAST, _MOST = 1e-9, 1e15


def median(counts: Counter[int]) -> int:
    """The lower median of counted whole numbers. Raises ValueError when nothing was counted."""
    left = sum(counts.values())
    if not left:
        raise ValueError("a median of nothing")
    left = (left + 1) // 2
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    raise AssertionError("the counts do not add up")


class Sketch:
    """Counts by logarithmic bucket: at most 5600 buckets between 1e-9 and 1e15.

    Source: DDSketch (Masson, Rim, Lee, VLDB 2019). Values outside the range count at its ends.
    """

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0

    def add(self, value: float) -> None:
        bounded = min(max(value, _LEAST), _MOST)
        self._buckets[math.ceil(math.log(bounded) / _LOG)] += 1
        self.count += 1
        self.total += value

    def join(self, other: Sketch) -> None:
        """Add all that another one counted."""
        self._buckets.update(other._buckets)
        self.count += other.count
        self.total += other.total

    def quantile(self, share: float) -> float:
        """The value of rank `ceil(share * count)`. Raises ValueError when nothing was added."""
        if not self.count:
            raise ValueError("a quantile of nothing")
        rank = max(1, math.ceil(share * self.count))
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                return 2 * _BASE**bucket / (_BASE + 1)
        raise AssertionError("the counts do not add up")
