"""What a step is: one cycle from one update of an anchor optimizer to the next."""

from __future__ import annotations

import weakref
from typing import Any

PATIENCE = 4
"""Updates of other optimizers, beyond twice the usual, after which the anchor is given up."""


class Cycles:
    """Finds the boundaries between steps in the updates of any number of optimizers.

    The first optimizer that is stepped is the anchor. A cycle in which a GradScaler skipped the
    update ends where the scale is updated. Calls of modules have cycles in the same way.
    """

    def __init__(self) -> None:
        self._anchor: weakref.ref[Any] | None = None
        self._others = 0
        self._usual = 0
        self._stepped_since_scale = False
        self._backward_since_scale = False

    def updated(self, optimizer: Any) -> bool:
        """An optimizer has been stepped. True when a step ends here."""
        self._stepped_since_scale = True
        anchor = self._anchor() if self._anchor else None
        if anchor is not None and anchor is not optimizer:
            self._others += 1
            if self._others <= PATIENCE + 2 * self._usual:
                return False
            self._usual = 0
        elif anchor is optimizer:
            self._usual = max(self._usual, self._others)
        if anchor is not optimizer:
            self._anchor = weakref.ref(optimizer)
        self._others = 0
        return True

    @property
    def anchor(self) -> Any:
        """What the steps are counted by; None before the first."""
        return self._anchor() if self._anchor else None

    def backward(self) -> None:
        """A backward pass has begun."""
        self._backward_since_scale = True

    def rescaled(self) -> bool:
        """A GradScaler updates its scale. True when a step ends here: the update was skipped."""
        skipped = self._backward_since_scale and not self._stepped_since_scale
        self._backward_since_scale = self._stepped_since_scale = False
        return skipped
