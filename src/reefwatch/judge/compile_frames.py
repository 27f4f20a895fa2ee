"""What the checks of what dynamo did not compile have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place
from reefwatch.core.record import Case, Event

USED = "compile.used"
MOST = 10
HOT = 8
"""Calls of the compiled callables from which on a graph break is in a hot path."""
_FIX = {
    "left": "change what the line does, or leave the function out with torch.compiler.disable",
    "break": "change the line, or move it out of the compiled function",
    "limit": "mark what changes as dynamic, or raise the limit",
}


def row(**changes: Any) -> Event:
    """A row as the guard writes it, for good and bad cases."""
    data: dict[str, Any] = {
        "kind": "break",
        "file": "/model.py",
        "line": 31,
        "what": "Data-dependent branching",
        "why": "the branch depends on a value",
        "knob": "",
        "times": 1,
    }
    return Event("compile.frame", {**data, **changes}, id="0")


def case(*rows: Event, **changes: Any) -> Case:
    """A case of a run that compiled something."""
    value: dict[str, Any] = {"compiled": 3, "left": 0, "breaks": 0, "limits": 0, "calls": 100}
    return Case.of(*rows, compile__used=True, compile__frames={**value, **changes})


def covers(case: Case) -> tuple[Coverage, ...]:
    """Functions that dynamo met."""
    told = case.value("compile.frames")
    met = told["compiled"] + told["left"]
    return (Coverage("functions met by dynamo", met, met),)


def findings(case: Case, kind: str) -> Iterator[Finding]:
    """One finding for each place."""
    if kind == "break" and case.value("compile.frames")["calls"] < HOT:
        return
    rows = [event.data for event in case.rows("compile.frame") if event.data["kind"] == kind]
    for one in rows[:MOST]:
        knob = f"torch._dynamo.config.{one['knob']}" if one["knob"] else ""
        message = {
            "left": f"{one['what']} was left to eager",
            "break": f"the graph is broken: {one['what']}",
            "limit": f"{one['what']} was compiled again until {knob} was reached",
        }[kind]
        yield Finding(
            message,
            (Evidence("compile.frame", one["times"], "times", "dynamo"),),
            Place(file=one["file"], line=one["line"]),
            claimed="torch.compile runs it as compiled code",
            why=one["why"],
            fix=_FIX[kind],
        )
