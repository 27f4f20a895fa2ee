"""Says which rank a hang waits for, while it hangs.

A collective that does not end blocks the thread that trains, in C, for as long as the backend's own
time-out (30 minutes at first) allows. So here, and only in a process group of several ranks, a
thread of ours wakes once a second (decision 9). It looks at two counters. When neither moves
for the allowance, it tells the other ranks, over a connection of its own to the job's store, where
this one stands, and writes down what they say. It ends nothing.
"""

from __future__ import annotations

import _thread
import json
import sys
import time as _time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.gather.dist import group
from reefwatch.gather.instrument import Instrument, Tools

_sleep, _now = _time.sleep, _time.monotonic
_ALLOWED = 60.0
_MOST = 4
"""Hangs that are told in one run."""
_LISTEN = 3.0
"""Seconds for the other ranks to say where they stand."""
Row = dict[str, Any]


class Watchdog(Instrument):
    """Fact `ranks.hang`; event of the same name."""

    name = "dist.watchdog"
    contract = "dist"

    def __init__(self) -> None:
        self._live = False
        self._dist: Any = None
        self._step = 0
        self._store: Any = None
        self._said = False
        self._main = 0
        self._hangs: list[Row] = []

    def arm(self, tools: Tools) -> None:
        self._tools, self._torch = tools, tools.torch
        self._allowed = float(tools.options.get("hang") or _ALLOWED)
        self._main = _thread.get_ident()

    def before_backward(self, loss: Any) -> None:
        self._begin()

    def before_update(self, optimizer: Any, examined: bool) -> None:
        self._begin()

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        self._step = step + 1

    def _begin(self) -> None:
        if self._live or self._dist is not None:
            return
        dist = group.module(self._torch)
        if dist is None:
            return
        self._dist, self._main, self._live = dist, _thread.get_ident(), True
        _thread.start_new_thread(self._watch, ())

    def _watch(self) -> None:
        """The thread: it must never raise, and touches nothing but counters until a hang."""
        last, since = (-1, -1), _now()
        while self._live:
            _sleep(min(1.0, self._allowed / 4))
            with suppress(Exception):
                here = (self._step, group.issued(self._dist))
                if here != last:
                    last, since = here, _now()
                    self._resumed()
                elif (
                    not self._said
                    and len(self._hangs) < _MOST
                    and _now() - since > self._allowed
                    and self._live
                ):
                    self._said = True
                    self._tell(_now() - since)

    def _resumed(self) -> None:
        """It went on: what was told to the others holds no longer."""
        if self._said:
            self._said = False
            self._store.delete_key(f"reefwatch/stall/{self._dist.get_rank()}")
            if self._hangs:
                self._hangs[-1]["resumed"] = True
                self._write()

    def _write(self) -> None:
        row = self._hangs[-1]
        number = f"{row['rank']}.{len(self._hangs)}"
        self._tools.sink.event("ranks.hang", row, id=number)
        self._fact()

    def _tell(self, seconds: float) -> None:
        dist = self._dist
        rank, world = dist.get_rank(), dist.get_world_size()
        if self._store is None:
            self._store = dist.distributed_c10d._get_default_store().clone()
            self._store.set_timeout(timedelta(seconds=2))
        store = self._store
        mine = self._stands(rank)
        store.set(f"reefwatch/stall/{rank}", json.dumps(mine))
        until, told = _now() + _LISTEN + self._allowed / 2, {rank: mine}
        while _now() < until and len(told) < world and self._live:
            for other in range(world):
                key = f"reefwatch/stall/{other}"
                if other not in told and store.check([key]):
                    told[other] = json.loads(store.get(key))
            _sleep(0.2)
        if not self._live:
            return
        row = {
            **mine,
            "seconds": round(seconds, 1),
            "words": diagnosed(told, world),
            "resumed": False,
        }
        row["told"] = [told[r] for r in sorted(told)]
        self._hangs.append(row)
        self._write()
        say: Callable[[str], None] | None = self._tools.options.get("say_hang")
        waits = any(one["inside"] for one in told.values())
        if say is not None and rank == min(told) and waits:
            say(f"no step and no collective for {seconds:.0f} s: {row['words']}")

    def _stands(self, rank: int) -> Row:
        frame = sys._current_frames().get(self._main)
        flight = group.flight()
        return {
            "rank": rank,
            "step": self._step,
            "issued": group.issued(self._dist),
            "at": group.place(frame),
            "inside": group.inside(frame),
            "last": flight[-1] if flight else None,
        }

    def _fact(self) -> None:
        value = {"allowed": self._allowed, "hangs": len(self._hangs)}
        source = "steps and collectives that were counted"
        self._tools.sink.fact("ranks.hang", Evidence("ranks.hang", value, source=source))

    def disarm(self) -> None:
        self._live = False
        if self._dist is not None:
            self._fact()

    def release(self) -> None:
        self._live = False


def diagnosed(told: Mapping[int, Row], world: int) -> str:
    """Who is waited for, in words, by where each rank stands."""
    if not any(row["inside"] for row in told.values()):
        where = ", ".join(f"rank {r} is at {row['at']}" for r, row in sorted(told.items()))
        return f"no rank is seen inside a collective: {where}"
    silent = [r for r in range(world) if r not in told]
    most = max(row["issued"] for row in told.values())
    behind = [r for r, row in sorted(told.items()) if row["issued"] < most]
    ahead = next(row for row in told.values() if row["issued"] == most)
    what = _call(ahead)
    if behind:
        where = ", ".join(f"rank {r} is at {told[r]['at'] or 'a place not known'}" for r in behind)
        return f"{_ranks(behind)} never came to collective {most}{what}: {where}"
    if silent:
        are = "is" if len(silent) == 1 else "are"
        told_by = f"the others wait in collective {most}{what}"
        return f"{_ranks(silent)} {are} not stuck here or gave no sign; {told_by}"
    calls = {r: _call(row) for r, row in sorted(told.items())}
    if len(set(calls.values())) > 1:
        words = ", ".join(f"rank {r}{call}" for r, call in calls.items())
        return f"the ranks are in different collectives with number {most}: {words}"
    return f"all ranks wait in collective {most}{what}: the transport or a device stands still"


def _call(row: Row) -> str:
    last = row.get("last") or {}
    op = f"{last['op']} {last['sizes']}".strip() if last.get("op") else ""
    return f" ({op}{', ' if op else ''}{row['at']})" if op or row["at"] else ""


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
