"""The scheduler: which steps are examined, under one allowance for the exam and one after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

SETTLE = 20
"""Examined steps in a row without anything new, after which the exam is over."""
PLAIN_AT, PLAIN_EVERY = 3, 8
"""Steps of the exam that are left plain: the fourth, and each eighth, to learn their time."""
RECENT = 9
"""Steps that a median is taken over."""
TIMED_PART = 0.5
"""Of the share, what may be spent by our own account; the rest is for what we cannot time: entering
the hooks, caches that are cold after an examined step, memory laid out anew."""
FIXED_PART = 0.1
"""Of the share, what looks in steps that are not examined may cost; beyond it, steps are passed
over."""
MOST_PASSED = 64
"""At least every so many-th step is looked at, whatever it costs."""
DISTRUST = 5.0
"""An examined step that took longer than a plain one by more than this many times the layer's own
time did other work as well (a validation pass, a checkpoint): the excess is not ours."""


class Scheduler:
    """Decides before each step whether it is examined, and keeps account of what it cost.

    The exam may spend `exam` seconds of overhead; after it, `share` of the wall time. Neither is
    exceeded by more than the cost of one examined step, as long as what every step costs (`fixed`)
    alone stays below the share.
    """

    def __init__(self, exam: float, share: float, clock: Callable[[], float]) -> None:
        self.allowance = exam
        self.share = share
        self.wanted: frozenset[int] = frozenset()
        """Steps that are examined whatever it costs: a reference was asked for."""
        self.alone = False
        """True when the step under way is examined for the reference's sake alone."""
        self.exam_spent = 0.0
        self.exam_steps = 0
        self.ended = "" if exam > 0 else "no exam was asked for"
        """Why the exam is over; empty while it goes on."""
        self.steady_spent = 0.0
        self.steady_examined = 0
        self.steady_steps = self.steady_looked = 0
        self.looking = True
        """True when the instruments look at the step under way."""
        self._looks: deque[float] = deque(maxlen=RECENT)
        self._passes: deque[float] = deque(maxlen=RECENT)
        self._every = 1
        self._plain_now: float | None = None
        self._cost_now = 0.0
        self._stale = False
        self._clock = clock
        self._since = clock()
        self._settled = 0
        self._plain: deque[float] = deque(maxlen=RECENT)
        self._costs: deque[float] = deque(maxlen=RECENT)
        self._early: list[tuple[float, float]] = []
        """(seconds, layer) of examined steps from before a plain one was timed."""

    def examine(self, step: int) -> bool:
        """True when `step`, which begins now, is to be examined."""
        self.alone = bool(self.ended) and step in self.wanted
        if step in self.wanted:
            return True
        if not self.ended:
            if self.exam_spent + self._expected() <= self.allowance:
                return step % PLAIN_EVERY != PLAIN_AT
            self._end("the allowance was spent")
        if self.share <= 0 or step % self.stride():
            return False
        allowed = TIMED_PART * self.share * (self._clock() - self._since)
        return self.steady_spent + self._expected() < allowed

    def look(self, step: int, examined: bool) -> bool:
        """True when the instruments are to look at `step`; they pass over the others.

        A look is what the hooks of such a step cost beyond those of one that is passed over.
        """
        self.looking = examined or not self.ended or step % self._every == 0
        return self.looking

    def _thin(self) -> None:
        """How often the share allows a look, as a power of two."""
        look = (_median(self._looks) or 0.0) - (min(self._passes) if self._passes else 0.0)
        allowed = FIXED_PART * self.share * (self.plain_seconds() or 0.0)
        every = 1
        while allowed and every < MOST_PASSED and look > allowed * every:
            every *= 2
        self._every = every

    def stride(self) -> int:
        """Every how many steps the share allows an examined one, as a power of two.

        Powers of two, so that the ranks of one job, which decide alone, mostly examine the same
        steps: ranks that are slow in turn would slow the job down by the sum of their shares.
        """
        allowed = TIMED_PART * self.share * (self.plain_seconds() or 0.0)
        needed = self._expected() / max(allowed, 1e-12)
        stride = 1
        while stride < needed and stride < 1 << 20:
            stride *= 2
        return stride

    def step(self, seconds: float, examined: bool, layer: float, fixed: float, new: bool) -> float:
        """Account for a step that ended; return what it cost, in seconds.

        `seconds` without `fixed`, the time spent in hooks of ours; `layer` is the op layer's own
        time, a lower bound of what it cost; `new` says whether something new was learned.
        """
        cost = fixed
        if examined:
            cost += self._layer_cost(seconds, layer)
            self._costs.append(cost)
            self._cost_now = _median(self._costs) or 0.0
            if not self._plain:
                self._early.append((seconds, layer))
        else:
            self._plain.append(seconds)
            self.exam_spent += self._belated()
            self._stale |= not self.ended or not self.steady_steps & 7  # a median takes a while
            (self._looks if self.looking else self._passes).append(fixed)
        if self.ended:
            self.steady_looked += self.looking
            if not self.steady_steps & 15:
                self._thin()
            self.steady_spent += cost
            self.steady_steps += 1
            self.steady_examined += examined
            return cost
        self.exam_spent += cost
        self.exam_steps += examined
        if examined:
            self._settled = 0 if new else self._settled + 1
            if self._settled >= SETTLE:
                self._end(f"nothing new in {SETTLE} examined steps")
        return cost

    def finish(self) -> None:
        """The run is over."""
        if not self.ended:
            self._end("the run ended")

    def resettle(self) -> None:
        """Steps are of another kind from here on; what was learned before says little of them."""
        self._settled = 0
        self.exam_steps = self.steady_examined = self.steady_steps = self.steady_looked = 0
        self._looks.clear()
        self._passes.clear()
        self._every = 1
        if self.ended and self.exam_spent < self.allowance:
            self.ended = ""
        self._plain.clear()
        self._costs.clear()
        self._early.clear()
        self._plain_now, self._cost_now = None, 0.0

    def left(self) -> float:
        """Seconds of overhead that the step under way may cost before it must be left."""
        if self.wanted:
            return float("inf")
        if not self.ended:
            return self.allowance - self.exam_spent
        return max(DISTRUST * self._expected(), self.share * (self._clock() - self._since))

    def plain_seconds(self) -> float | None:
        """Median time of recent plain steps; None before there was one."""
        if self._plain_now is None or self._stale:
            self._stale = False
            self._plain_now = _median(self._plain)
        return self._plain_now

    def spent_share(self) -> float:
        """The part of the wall time since the exam that was spent on examining."""
        return self.steady_spent / max(self._clock() - self._since, 1e-9) if self.ended else 0.0

    @property
    def examined(self) -> int:
        """Steps examined so far."""
        return self.exam_steps + self.steady_examined

    def facts(self) -> dict[str, Any]:
        """`watch.exam` and `watch.budget`; times in seconds."""
        exam = {"steps": self.exam_steps, "seconds": self.exam_spent, "allowance": self.allowance}
        spent = {"share": self.share, "spent_share": self.spent_share()}
        steady = {
            "examined": self.steady_examined,
            "looked": self.steady_looked,
            "of": self.steady_steps,
            "look": _median(self._looks),
        }
        return {"watch.exam": {**exam, "ended": self.ended}, "watch.budget": {**spent, **steady}}

    def _expected(self) -> float:
        return self._cost_now

    def _layer_cost(self, seconds: float, layer: float) -> float:
        plain = self.plain_seconds()
        if plain is None:
            return layer
        return max(layer, min(seconds - plain, DISTRUST * layer))

    def _belated(self) -> float:
        """What the first examined steps cost beyond the layer's own time, now that this is known.

        The first of all holds the program's setup too: it is taken to have cost as the others did.
        """
        if not self._early:
            return 0.0
        early, self._early = self._early, []
        missed = [self._layer_cost(seconds, layer) - layer for seconds, layer in early[1:]]
        spent = sum(layer for _, layer in early[1:])
        factor = sum(missed) / spent if spent else 0.0
        self._costs = deque((c * (1 + factor) for c in self._costs), maxlen=RECENT)
        self._cost_now = _median(self._costs) or 0.0
        return sum(missed) + factor * early[0][1]

    def _end(self, why: str) -> None:
        self.ended = why
        self._since = self._clock()


def _median(values: Iterable[float]) -> float | None:
    kept = list(values)
    return median(kept) if kept else None
