"""Step times: every step is counted, few are kept."""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from types import FrameType
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.perf.feed import Feed
from reefwatch.gather.perf.quantiles import RELATIVE_ERROR, Sketch

HEAD = 200
"""The first steps, kept one by one: among them the warm-up is looked for at the end."""
SETTLED = 1.5
"""The warm-up is over with the first step that takes less than this many medians."""
SPREAD_STEPS = 100
"""Unexamined steps that a statement on the spread needs: its 95th percentile rests on five."""
_BATCH_STEPS = 200
_BATCH_SECONDS = 1.0
_FINE_ROWS = 20_000
"""Rows before one row stands for two steps, then four: a long run's record stays small."""
_WRITE_EVERY = 10.0
_TRIES = 100
"""Forward ops of an examined step whose frames are searched for a module with an input."""
_SIZES = 64
"""Distinct samples-per-step counts that are kept."""


class Timing(Instrument):
    """Median, 95th percentile and samples a second, of steps that nothing examined."""

    name = "timing"
    contract = "perf"
    wants_ops = True

    def __init__(self) -> None:
        self._tools: Tools | None = None
        self._feed: Feed | None = None
        self._head: list[tuple[float, bool]] = []
        self._plain, self._examined = Sketch(), Sketch()
        self._count = 0
        self._sizes: Counter[int] = Counter()
        self._drawn = 0
        self._input = 0
        self._root = ""
        self._tries = 0
        self._rows = Rows()
        self._sent = self._wrote = 0.0

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._feed = Feed.of(tools)
        self._sent = self._wrote = tools.clock()

    def open(self, step: int) -> None:
        self._tries = 0 if self._input else _TRIES

    def on_op(self, call: Any) -> None:
        if not self._tries or call.phase != "forward" or self._tools is None:
            return
        self._tries -= 1
        found = _root_input(sys._getframe(1), self._tools.torch)
        if found is not None:
            self._root, self._input = found
            self._tries = 0

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        tools = self._tools
        if tools is None:
            return
        self._count += 1
        if len(self._head) < HEAD:
            self._head.append((seconds, examined))
        else:
            (self._examined if examined else self._plain).add(seconds)
        self._draw()
        self._rows.add(step, seconds, examined)
        now = tools.clock()
        if len(self._rows) >= _BATCH_STEPS or now - self._sent >= _BATCH_SECONDS:
            self._send(tools, now)

    def disarm(self) -> None:
        if self._tools is None:
            return
        self._send(self._tools, self._tools.clock())
        self._write(self._tools)
        self._tools = self._feed = None

    def _draw(self) -> None:
        """Samples that the loader gave in this step, on this thread."""
        if self._feed is None:
            return
        drawn = self._feed.here().samples
        size, self._drawn = drawn - self._drawn, drawn
        if size and (size in self._sizes or len(self._sizes) < _SIZES):
            self._sizes[size] += 1

    def _send(self, tools: Tools, now: float) -> None:
        row = self._rows.take()
        if row is not None:
            tools.sink.event("perf.steps", row)
        self._sent = now
        if now - self._wrote >= _WRITE_EVERY:
            self._wrote = now
            self._write(tools)

    def _write(self, tools: Tools) -> None:
        for name, fact in self._facts().items():
            tools.sink.fact(name, fact)

    def _facts(self) -> dict[str, Fact]:
        if not self._count:
            why = Unknown("no step was seen")
            return {"perf.steps": why, "perf.spread": why}
        warmup = self._warmup()
        settled = self._head[warmup:]
        plain = [seconds for seconds, examined in settled if not examined]
        times, kept, used = plain, self._plain, "unexamined steps"
        if not plain and not self._plain.count:
            times = [seconds for seconds, _ in settled]
            kept, used = self._examined, "examined steps, which are longer than others"
        median, p95 = _quantile(times, kept, 0.5), _quantile(times, kept, 0.95)
        samples, whence = self._samples()
        value = {
            "count": self._count,
            "median": median,
            "p95": p95,
            "warmup": warmup,
            "samples_per_second": samples / median if samples and median > 0 else None,
            "samples_per_step": samples,
            "steps": len(times) + kept.count,
        }
        source = f"{used} after {warmup} of warm-up; samples: {whence}"
        if kept.count:
            source += f"; quantiles to {RELATIVE_ERROR:.1%}"
        steps = Evidence("perf.steps", value, "s", source)
        return {"perf.steps": steps, "perf.spread": self._spread(value, used)}

    def _spread(self, value: dict[str, Any], used: str) -> Fact:
        if used.startswith("examined") or value["steps"] < SPREAD_STEPS:
            seen = 0 if used.startswith("examined") else value["steps"]
            return Unknown(
                f"{seen} steps ran unexamined after the warm-up; {SPREAD_STEPS} are needed"
            )
        parts = {"median": value["median"], "p95": value["p95"], "steps": value["steps"]}
        ratio = value["p95"] / value["median"] if value["median"] > 0 else None
        if ratio is None:
            return Unknown("the median step took no time that the clock can tell")
        return Evidence("perf.spread", {**parts, "ratio": ratio}, "s", used)

    def _warmup(self) -> int:
        """Steps at the start that took SETTLED medians or more, the first one always.

        Never more than half of what was seen: then the run did not settle at all.
        """
        plain = [seconds for seconds, examined in self._head if not examined]
        usual = _quantile(plain or [s for s, _ in self._head], self._plain, 0.5) * SETTLED
        most = min(len(self._head), max(1, self._count // 2))
        for n, (seconds, examined) in enumerate(self._head[:most]):
            if n and seconds < usual and not examined:
                return n
        return 1 if self._count > 1 and not plain else min(most, self._count - 1)

    def _samples(self) -> tuple[int | None, str]:
        """(samples in a usual step, where that was learned)."""
        if self._sizes:
            size = self._sizes.most_common(1)[0][0]
            return size, "drawn from the DataLoader in most steps"
        if self._input:
            return self._input, f"dimension 0 of the first tensor given to {self._root}"
        return None, "not known: no DataLoader, and no examined step showed the model's input"


class Rows:
    """Step times on their way to the record; one row stands for more steps as the run goes on."""

    def __init__(self) -> None:
        self._every = 1
        self._written = 0
        self._first = 0
        self._seconds: list[float] = []
        self._marks: list[int] = []
        self._sum = 0.0
        self._held = 0
        self._mark = 0

    def __len__(self) -> int:
        return len(self._seconds)

    def add(self, step: int, seconds: float, examined: bool) -> None:
        if not self._seconds and not self._held:
            self._first = step
        self._sum += seconds
        self._held += 1
        self._mark |= int(examined)
        if self._held >= self._every:
            self._push()

    def take(self) -> dict[str, Any] | None:
        """The data of a `perf.steps` event; None when no step has ended since the last one."""
        if not self._seconds:
            return None
        seconds = [float(f"{each:.6g}") for each in self._seconds]
        row = {"first": self._first, "seconds": seconds, "examined": self._marks}
        row["every"] = self._every
        self._first += len(self._seconds) * self._every
        self._written += len(self._seconds)
        self._seconds, self._marks = [], []
        if self._written >= _FINE_ROWS and not self._held:
            self._every, self._written = self._every * 2, self._written - _FINE_ROWS
        return row

    def _push(self) -> None:
        self._seconds.append(self._sum / self._held)
        self._marks.append(self._mark)
        self._sum, self._held, self._mark = 0.0, 0, 0


def _quantile(times: list[float], kept: Sketch, share: float) -> float:
    """A quantile of single values and of a sketch together; exact while the sketch is empty."""
    if not kept.count:
        if not times:
            return 0.0
        if share == 0.5:
            return statistics.median(times)
        return sorted(times)[min(len(times) - 1, int(share * len(times)))]
    both = Sketch()
    both.join(kept)
    for seconds in times:
        both.add(seconds)
    return both.quantile(share)


def _root_input(frame: FrameType | None, torch: Any) -> tuple[str, int] | None:
    """(class name, first dimension) of the first tensor given to the outermost module running.

    Found from the frames of `Module._call_impl`; nothing is hooked.
    """
    call = torch.nn.Module._call_impl.__code__
    outermost = None
    while frame is not None:
        if frame.f_code is call:
            outermost = frame
        frame = frame.f_back
    if outermost is None:
        return None
    local = outermost.f_locals
    given = (*local.get("args", ()), *local.get("kwargs", {}).values())
    for value in given:
        if isinstance(value, torch.Tensor) and value.dim():
            return type(local["self"]).__name__, int(value.size(0))
    return None
