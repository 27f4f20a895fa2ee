"""LOOP015: no NaN on the side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event


def _row(where: str) -> Event:
    data = {
        "where": where,
        "kind": "nan",
        "op": "aten.div.Tensor",
        "module": "head",
        "file": "/model.py",
        "line": 12,
        "phase": "forward",
    }
    return Event("loop.nonfinite", data, id=where)


def _covers(case: Case) -> tuple[Coverage, ...]:
    value = case.value("loop.finite")
    ops, lost = value["ops"], value.get("lost", 0)
    kept = (Coverage("ops", ops, ops + lost),) if lost else ()
    return (Coverage("steps", value["steps"], value["steps_of"]), *kept)


def _inside_compiled(case: Case) -> str:
    """Why nothing can be said of what compiled code keeps to itself."""
    ops = case.known("precision.ops")
    graphs = ops.get("compiled_calls", 0) if isinstance(ops, dict) else 0
    return f"inside {graphs} compiled graphs no op was seen" if graphs else ""


_FACTS: dict[str, Any] = {
    "loop__training": True,
    "loop__finite": {"ops": 900, "steps": 9, "steps_of": 9, "stray": 0},
}


@check(
    "LOOP015",
    Severity.NOTE,
    when=("loop.training",),
    needs=("loop.finite",),
    good=(Case.of(**_FACTS), Case.of(_row("loss"), **_FACTS)),
    bad=(Case.of(_row("op"), **_FACTS),),
    covers=_covers,
    doubt=_inside_compiled,
)
def stray_nan(case: Case) -> Iterator[Finding]:
    """NaN on the side: no op makes one that is thrown away later.

    An op made a NaN from inputs without one, and it reached neither the loss nor an update: it was
    masked (`where`, `nan_to_num`) or belongs to something on the side. That is legitimate, so it is
    a note and breaks nothing.

    Why: the gradient of a masked NaN is NaN again as soon as its op is on the way to the loss.
    Fix: mask the input of the op rather than its output.
    Source: https://github.com/pytorch/pytorch/issues/68425
    """
    for row in case.rows("loop.nonfinite"):
        if row.data["where"] == "op":
            data = row.data
            yield Finding(
                f"{data['op']} made a NaN that reached neither the loss nor an update",
                (Evidence("loop.nonfinite", "nan", source="outputs of ops"),),
                Place(data["module"], data["op"], data["file"], data["line"], row.step),
                why="it was masked later",
                fix="mask the input of the op rather than its output",
            )
