"""One rank's overseer: starts its worker, keeps the deadlines, goes on behind what hangs.

It touches no backend. When a step does not end in time, or a worker dies, all agents say where
theirs stands, the lowest one names who is to blame, and new workers go on behind that step in a
fresh process group.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from reefwatch.core.errors import ReefwatchError
from reefwatch.core.launch import Launch
from reefwatch.experiments.dist import diagnosis, inventory, phases
from reefwatch.experiments.dist.child import Child, state
from reefwatch.experiments.dist.control import Control, Gone

Row = dict[str, Any]
MOST = 12
"""Process groups that are made in one run; a backend that hangs more often is not tried further."""
_BEAT = 0.5
_STALE = 10.0
"""Seconds without a beat of another agent, after which it counts as lost. It must outlast a pause
of a loaded machine."""


class Told(ReefwatchError):
    """The launcher, or somebody, ended this agent."""


class Agent:
    """The steps of one rank and what became of them."""

    def __init__(
        self, control: Control, launch: Launch, plan: Row, say: Callable[[str], None]
    ) -> None:
        self._control, self._launch, self._plan, self._say = control, launch, plan, say
        self.steps = list(phases.steps({**plan, "world": launch.world}))
        self.rows: dict[int, Row] = {}
        self.ranks: dict[int, Row] = {}
        self.ended = ""
        """Why not all steps were run; "" when they were."""
        self.trouble: list[Row] = []
        """Each hang and death: what, who, where."""
        self._parent = os.getppid()
        self._beaten = 0.0
        self._beats: dict[int, tuple[str, float]] = {}
        self._stopped = False

    def run(self) -> None:
        """Until all steps are answered for, or the run cannot go on (`ended` then says why)."""
        with suppress(ValueError):  # not on the main thread
            signal.signal(signal.SIGTERM, self._term)
        mine = inventory.of_process(os.environ, self._launch)
        self.ranks[self._launch.rank] = mine
        start: int | None = 0
        generation = 0
        try:
            told = self._control.all("hello", json.dumps(mine), self._plan["setup"])
            self.ranks.update({rank: json.loads(text) for rank, text in told.items()})
            absent = [r for r in range(self._launch.world) if r not in told]
            if absent:
                self._end(
                    {
                        "ranks": absent,
                        "words": f"{_ranks(absent)} did not appear in {self._plan['setup']:g} s",
                    }
                )
                return
            while start is not None and start < len(self.steps):
                if generation == MOST:
                    self.ended = f"{MOST} process groups were lost: nothing further was tried"
                    return
                start = self._generation(generation, start)
                generation += 1
        except Gone as gone:
            self._end({"ranks": [], "words": str(gone)})
        except Told as told_to:
            self._end({"ranks": [], "words": str(told_to)})

    def _term(self, number: int, frame: Any) -> None:
        self._stopped = True

    def _end(self, trouble: Row) -> None:
        self.trouble.append(
            {"step": -1, "name": "", "kind": "lost", "at": "", "lost": [], **trouble}
        )
        self.ended = self.ended or trouble["words"]

    def _generation(self, number: int, start: int) -> int | None:
        """Run from `start` on; where the next generation goes on, None when nothing can."""
        child = Child(self._for_worker(number, start))
        try:
            return self._follow(child, number, start)
        finally:
            child.end()

    def _for_worker(self, number: int, start: int) -> Row:
        launch, control = self._launch, self._control
        more = {"generation": number, "start": start, "rank": launch.rank, "world": launch.world}
        where = {"local_rank": launch.local_rank, "host": control.host, "port": control.port}
        return {**self._plan, **more, **where}

    def _follow(self, child: Child, number: int, start: int) -> int | None:
        going: int | None = None
        last = start
        while True:
            for line in child.lines(0.1):
                if "begin" in line:
                    last = line["begin"]
                    self._progress(last)
                elif "end" in line:
                    self.rows[line["end"]] = line["row"]
                elif "inventory" in line:
                    self._share(line["inventory"])
                elif "again" in line:
                    going = line["again"]
                elif "done" in line:
                    going = len(self.steps)
                elif "failed" in line:
                    self._propose(number, {"why": f"failed: {line['failed']}", "step": last})
            if going is not None:
                child.close()
                return going
            self._look(child, number, last)
            stop = self._control.get(f"stop/{number}")
            if stop is not None:
                return self._diagnose(child, number, json.loads(stop))

    def _look(self, child: Child, number: int, last: int) -> None:
        """Keep alive, and propose to stop when a deadline is over or somebody is lost."""
        if self._stopped or os.getppid() != self._parent:
            raise Told("the launcher ended this rank" + self._others())
        self._beat()
        silent = time.monotonic() - child.since
        patience = (
            self._plan["setup"] + self._plan["deadline"]
            if child.step < 0
            else self._plan["deadline"]
        )
        if child.step >= 0:
            patience *= self.steps[child.step].patience
        if child.ended:
            self._propose(number, {"why": child.status(), "step": last})
        elif silent > patience:
            self._propose(number, {"why": f"no end within {patience:g} s", "step": last})
        for rank in self._stale():
            why = self._kernel(rank) or f"gave no sign for {_STALE:g} s"
            self._propose(number, {"why": why, "step": last, "rank": rank})

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beaten < _BEAT:
            return
        self._beaten = now
        self._control.set(f"beat/{self._launch.rank}", str(now))

    def _stale(self) -> list[int]:
        now, lost = time.monotonic(), []
        if self._beaten != now and now - self._beaten > 2 * _BEAT:
            return []
        for rank in range(self._launch.world):
            if rank == self._launch.rank:
                continue
            told = self._beats.get(rank, ("", now))
            if now - told[1] > _BEAT or not told[0]:
                seen = self._control.get(f"beat/{rank}") or ""
                told = told if seen == told[0] else (seen, now)
                self._beats[rank] = told
            if now - told[1] > _STALE or "is gone" in self._kernel(rank):
                lost.append(rank)
        return lost

    def _kernel(self, rank: int) -> str:
        """What the kernel says of another rank's agent, when it is on this host."""
        about = self.ranks.get(rank, {})
        if about.get("host") != os.uname().nodename:
            return ""
        return {
            "T": "is stopped (SIGSTOP)",
            "": "is gone: its process was killed or ended",
            "Z": "is gone: its process was killed or ended",
        }.get(state(about["pid"]), "")

    def present(self) -> set[int]:
        """The ranks that came and were not lost."""
        lost = {rank for trouble in self.trouble for rank in trouble.get("lost", ())}
        return set(self.ranks) - lost

    def alive(self) -> set[int]:
        """The ranks on this host whose agents run."""
        here = os.uname().nodename
        return {
            rank
            for rank, about in self.ranks.items()
            if about["host"] == here and state(about["pid"]) not in ("", "Z", "T")
        }

    def _others(self) -> str:
        gone = [r for r in self.ranks if r != self._launch.rank and "is gone" in self._kernel(r)]
        return f": {_ranks(gone)} died" if gone else ""

    def _propose(self, number: int, why: Row) -> None:
        self._control.first(f"stop/{number}", json.dumps({"rank": self._launch.rank, **why}))

    def _share(self, row: Row) -> None:
        self.ranks[self._launch.rank].update(row)
        self._control.set(f"about/{self._launch.rank}", json.dumps(self.ranks[self._launch.rank]))

    def gather_ranks(self, seconds: float) -> None:
        """Learn what the others' workers said of their cards."""
        with suppress(Gone):
            for rank, text in self._control.all("about", None, seconds).items():
                self.ranks[rank] = json.loads(text)

    def _progress(self, number: int) -> None:
        if number == 0 or self.steps[number].phase != self.steps[number - 1].phase:
            self._say(f"{self.steps[number].phase} ({number} of {len(self.steps)} steps)")

    def _diagnose(self, child: Child, number: int, stop: Row) -> int | None:
        self._beat()
        mine = child.where(2.0)
        child.end()
        gone = {r for r in self.ranks if "is gone" in self._kernel(r)}
        told = self._control.all(f"dump/{number}", json.dumps(mine), 8.0, set(self.ranks) - gone)
        dumps = {rank: json.loads(text) for rank, text in told.items()}
        if self._launch.rank == min(dumps):
            names = {n: f"{step.phase} {step.name}" for n, step in enumerate(self.steps)}
            kernel = {r: self._kernel(r) for r in range(self._launch.world) if r not in dumps}
            made = diagnosis.told(stop, dumps, names, self._launch.world, kernel)
            self._control.set(f"verdict/{number}", json.dumps(made))
        text = self._control.wait(f"verdict/{number}", 8.0)
        if text is None:
            self._end({"ranks": [], "words": "the others gave no answer after a step did not end"})
            return None
        made = json.loads(text)
        kind = "lost" if any(d.get("exit") for d in dumps.values()) or made["lost"] else "hang"
        at = made["step"]
        name = self.steps[at].name if 0 <= at < len(self.steps) else ""
        self.trouble.append({**made, "name": name, "kind": kind})
        self._say(f"{'a process was lost' if kind == 'lost' else 'a hang'}: {made['words']}")
        if at >= 0:
            self.rows[at] = {"state": kind, "detail": made["words"], "blamed": made["ranks"]}
        if made["lost"]:
            self.ended = made["words"]
            self._bury(made["lost"])
            return None
        if child.step < 0 or at < 0:  # no group could be made: the next would not be either
            self.ended = made["words"]
            return None
        return int(at) + 1

    def _bury(self, lost: list[int]) -> None:
        """End the process of an agent of ours on this host that is stopped for good."""
        for rank in lost:
            about = self.ranks.get(rank, {})
            if about.get("host") == os.uname().nodename and state(about["pid"]) == "T":
                with suppress(OSError):
                    os.kill(about["pid"], signal.SIGKILL)


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
