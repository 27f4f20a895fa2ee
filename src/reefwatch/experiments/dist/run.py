"""One rank's part of `reefwatch dist`, from its launch to its record."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.launch import Launch
from reefwatch.core.record import Event, Record
from reefwatch.data.collectives import PHASES
from reefwatch.experiments.dist import phases
from reefwatch.experiments.dist.agent import Agent
from reefwatch.experiments.dist.control import Control, Gone

Row = dict[str, Any]
_SOURCE = "reefwatch dist"


class Part:
    """One rank's part. `record` is its own; `all_records` those of the ranks that answered."""

    def __init__(self, launch: Launch, plan: Row, say: Callable[[str], None]) -> None:
        """Raises ReefwatchError when the store is not reached."""
        self._launch, self._plan = launch, plan
        self._control = Control(os.environ, launch, plan["setup"])
        self._agent = Agent(self._control, launch, plan, say)

    def run(self, header: Mapping[str, Any]) -> Record:
        """All steps; the record of this rank."""
        self._agent.run()
        self._agent.gather_ranks(2.0)
        facts = dict(self._facts())
        events = tuple(self._events())
        return Record(header, facts, events, complete=not self._agent.ended)

    def _facts(self) -> Mapping[str, Fact]:
        agent = self._agent
        ranks = [agent.ranks[rank] for rank in sorted(agent.ranks)]
        made: dict[str, Any] = {
            "dist.tried": {
                "backend": self._plan["backend"],
                "level": self._plan["level"],
                "world": self._launch.world,
                "steps": len(agent.steps),
                "answered": len(agent.rows),
                "ended": agent.ended,
                "seed": self._plan["seed"],
            },
            "dist.ranks": ranks,
            "dist.trouble": agent.trouble,
        }
        facts: dict[str, Fact] = {n: Evidence(n, v, source=_SOURCE) for n, v in made.items()}
        for phase in PHASES:
            facts[f"dist.{phase}"] = self._phase(phase)
        return facts

    def _phase(self, phase: str) -> Fact:
        """How many steps of a phase are answered for, by state."""
        numbers = [n for n, step in enumerate(self._agent.steps) if step.phase == phase]
        if not numbers:
            return Evidence(f"dist.{phase}", False, source=phases.left_out(phase, self._plan))
        states = [self._agent.rows[n]["state"] for n in numbers if n in self._agent.rows]
        if not states:
            return Unknown(
                f"{phase} was not run: {self._agent.ended or 'no step of it was reached'}"
            )
        count = {state: states.count(state) for state in sorted(set(states))}
        return Evidence(f"dist.{phase}", {"of": len(numbers), **count}, source=_SOURCE)

    def _events(self) -> Any:
        for number, row in sorted(self._agent.rows.items()):
            step = self._agent.steps[number]
            data = {"phase": step.phase, "name": step.name, **step.about, **row}
            if row["state"] != "skipped":
                yield Event("dist.step", data, id=str(number))

    def exchange(self, mine: Record, seconds: float) -> list[Record]:
        """The records of all ranks that answer in time, this one among them."""
        told: dict[int, str] = {}
        with suppress(Gone):
            ranks = self._agent.present()
            told = self._control.all("record", json.dumps(_plain(mine)), seconds, ranks)
        others = [_record(json.loads(text)) for rank, text in told.items() if rank != mine.rank]
        return sorted([mine, *others], key=lambda record: record.rank)

    def shows(self, records: list[Record]) -> bool:
        """True when this rank is the first of those that are there."""
        there = {record.rank for record in records} | self._agent.alive()
        return self._launch.rank == min(there)

    def agree(self, code: int | None, seconds: float) -> int:
        """The exit code of the rank that shows the report, on all ranks; 2 when it gave none."""
        try:
            if code is not None:
                self._control.set("code", str(code))
                return code
            told = self._control.wait("code", seconds)
        except Gone:
            return 2 if code is None else code
        return 2 if told is None else int(told)

    def farewell(self, seconds: float) -> None:
        """Wait for the others, so that none ends the store or the launch under them."""
        with suppress(Gone):
            self._control.all("bye", "1", seconds, self._agent.present())
        sys.stderr.flush()


def _plain(record: Record) -> Row:
    facts = {
        name: {"value": fact.value, "source": fact.source}
        if isinstance(fact, Evidence)
        else {"unknown": fact.reason}
        for name, fact in record.facts.items()
    }
    events = [[event.id, dict(event.data)] for event in record.events]
    return {
        "header": dict(record.header),
        "facts": facts,
        "events": events,
        "complete": record.complete,
        "remarks": list(record.remarks),
    }


def _record(plain: Row) -> Record:
    facts: dict[str, Fact] = {
        name: Unknown(told["unknown"])
        if "unknown" in told
        else Evidence(name, told["value"], source=told["source"])
        for name, told in plain["facts"].items()
    }
    events = tuple(Event("dist.step", data, id=number) for number, data in plain["events"])
    return Record(plain["header"], facts, events, plain["complete"], tuple(plain["remarks"]))
