"""What the watch itself tells the record, and the live line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reefwatch.core.fact import Evidence, Json
from reefwatch.gather import environment
from reefwatch.gather.guard import Gate, describe

STATUS_SECONDS = 0.5
"""At most this often the live line is told anything."""


class Teller:
    """Writes facts of the watch (docs/record.md) and failures of our own."""

    def __init__(self, gate: Gate, on_status: Callable[[Mapping[str, Any]], None] | None) -> None:
        self._gate = gate
        self._on_status = on_status
        self._said = 0.0

    def say(self, name: str, value: Json, unit: str = "") -> None:
        self._gate.fact(name, Evidence(name, value, unit, source="watch"))

    def fail(self, name: str, where: str, error: Exception, step: int) -> None:
        """`errored.<name>`."""
        value = describe(error, where, step)
        self._gate.fact(f"errored.{name}", Evidence(f"errored.{name}", value))

    def status(self, watch: Any) -> None:
        """Tell the live line, now and then; one that fails is told no more."""
        now = watch._mark
        if self._on_status is None or now - self._said < STATUS_SECONDS:
            return
        self._said = now
        try:
            self._on_status(status(watch))
        except Exception as error:
            self._on_status = None
            self.fail("status", "on_status", error, watch._step)


def facts(watch: Any) -> dict[str, Json]:
    """The facts of the watch at its end, all but those of the steps."""
    scheduler, torch = watch._scheduler, watch._torch
    spawned = watch._children() if watch._children else {"spawned": 0, "watched": 0}
    told = scheduler.facts()
    looked = max(1, scheduler.examined)
    return {
        "env.device": environment.device_facts(torch),
        "watch.children": {**spawned, "spawned": spawned["spawned"] + watch.forks},
        "watch.threads": {"training": 1 + watch._owner.others, "watched": 1},
        "watch.compile": {"used": watch._compiles > 0, "calls": watch._compiles},
        "watch.exam": {**told["watch.exam"], "cut": watch._window.cut},
        "watch.budget": told["watch.budget"],
        "watch.cost": {g.name: g.seconds / looked for g in watch._panel.guards},
    }


def status(watch: Any) -> Mapping[str, Any]:
    """What the live line is told."""
    return {
        "step": watch._steps,
        "kind": watch._kind,
        "exam": not watch._scheduler.ended,
        "examined": watch._scheduler.examined,
        "step_seconds": watch._scheduler.plain_seconds(),
    }
