"""The window: what is looked at of the step under way, through the op layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reefwatch.gather.budget import Scheduler
from reefwatch.gather.guard import Panel
from reefwatch.gather.instrument import Instrument

GLIMPSE = 200
"""Ops of a block without gradients that are looked at outside an examined step."""
GLIMPSES = 12
"""Such looks per run."""


class Window(Instrument):
    """Whole examined steps, and glimpses of what is between them. The op layer tells it each op.

    `hurried` is called when the step costs too much: it has to be left at the next call of a
    module; `unhurried` when it was left.
    """

    name = "watch"
    wants_ops = True

    def __init__(
        self,
        panel: Panel,
        scheduler: Scheduler,
        hurried: Callable[[], None],
        unhurried: Callable[[], None],
    ) -> None:
        self.layer: Any = None
        """The op layer; None when no instrument wants ops."""
        self.examined = False
        self.inside = False
        """True while the op layer is entered."""
        self.missed = False
        """True when the step under way was taken over by a thread in the middle of its own."""
        self.glimpsing = False
        """True from the start of a block without gradients, in a step that is not examined."""
        self.overdue = False
        self.cut = 0
        """Examined steps of which the rest was not seen: they cost too much."""
        self._panel = panel
        self._scheduler = scheduler
        self._hurried = hurried
        self._unhurried = unhurried
        self._turn = 0
        self._glimpses = self._ops_before = 0
        self._glimpsed = 0.0
        self._before = self._limit = 0.0

    def open(self, step: int) -> None:
        """An examined step begins."""
        self.examined, self.missed = True, False
        self._panel.open(step, self._turn, self._scheduler.alone)
        self._turn += 1
        if self.layer is not None:
            self._before = self.layer.seconds
            self._limit = self._most()
            self.enter(step)

    def enter(self, step: int) -> None:
        """See the ops of the calling thread."""
        self.layer.enter(step)
        self.inside = True

    def leave(self) -> None:
        """See no more ops of this step."""
        if self.inside:
            self.inside = False
            self.layer.leave()
        if self.overdue:
            self.overdue = False
            self._unhurried()

    def close(self, step: int) -> bool:
        """The examined step ends. True when something new was learned."""
        self.leave()
        self.examined = False
        return self._panel.close(step)

    def may_glimpse(self) -> bool:
        """True when a block without gradients that begins now could be looked at."""
        if self.examined or self.inside or self.layer is None or self._glimpses >= GLIMPSES:
            return False  # an examined step sees it anyway
        return bool(self._scheduler.ended and self._scheduler.share)  # the exam sees whole steps

    def glimpse(self, step: int) -> None:
        """Look at the first ops of a block without gradients, if anybody wants to."""
        if not self._panel.glimpse(step):
            return
        self._glimpses += 1
        self.glimpsing = True
        self._before, self._ops_before = self.layer.seconds, self.layer.ops
        self.enter(step)

    def look_away(self, step: int) -> None:
        """A glimpse is over."""
        self.leave()
        self.glimpsing = False
        self._panel.close(step)
        self._glimpsed += self.seconds()

    def take_glimpsed(self) -> float:
        """Seconds that glimpses took in the step that ends."""
        taken, self._glimpsed = self._glimpsed, 0.0
        return taken

    def seconds(self) -> float:
        """The layer's own time in the step under way."""
        return float(self.layer.seconds - self._before) if self.layer else 0.0

    def on_op(self, call: Any) -> None:
        """One op, for all instruments; then, is it enough?"""
        self._panel.on_op(call)
        if self.overdue:
            return
        if self.glimpsing:
            if self.layer.ops - self._ops_before >= GLIMPSE:
                self._hurry()
        elif self.layer.seconds > self._limit:
            self._limit = self._most()
            if self.layer.seconds > self._limit:
                self._hurry()

    def _most(self) -> float:
        """What the layer's clock may show before the step under way must be left.

        Reaching it by the dispatcher, and what the instruments do when the step closes, cost
        about as much again as the layer itself.
        """
        return float(self._before + self._scheduler.left() / 2.0)

    def _hurry(self) -> None:
        self.overdue = True
        if self._scheduler.examined == self.cut:  # no step was seen to its end so far
            self.layer.locator.miss("the rest of a step that cost more than was allowed")
        self.cut += 1
        self.layer.mute()
        self._hurried()
