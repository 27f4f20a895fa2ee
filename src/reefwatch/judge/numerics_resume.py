"""What the checks of a resumed run have in common: kinds of state, good and bad cases, words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding
from reefwatch.core.record import Case

POINT = {"update": 8, "compared": 8, "stopped": 8, "saved_by": ["torch.save"]}


def state(**changes: Any) -> dict[str, Any]:
    """The fact of one kind of state, for good and bad cases."""
    value: dict[str, Any] = {"of": 12, "differ": 0, "absent": 0, "names": [], "values": []}
    return {**value, **changes}


def lost(name: str, before: str, after: str) -> dict[str, Any]:
    """The same, with one value that was not restored."""
    told = {"name": name, "before": before, "after": after}
    return state(differ=1, names=[name], values=[told])


def covers(case: Case) -> tuple[Coverage, ...]:
    point = case.value("resume.point")
    return (Coverage("updates after the resumption", point["compared"], point["compared"]),)


def broken(value: Mapping[str, Any]) -> bool:
    return bool(value["differ"] or value["absent"])


def not_restored(case: Case, kind: str, what: str, fix: str) -> Finding | None:
    """The finding for a kind of state that is other after the resumption; None when it is equal."""
    value = case.value(f"resume.{kind}")
    if not broken(value):
        return None
    count = value["differ"] + value["absent"]
    shown = "".join(
        f", first {first['name']}: {first['after']}, where the stopped run had {first['before']}"
        for first in value["values"][:1]
    )
    return Finding(
        f"{what} not restored: {count} of {value['of']} values differ{shown}",
        (Evidence(f"{kind} values not restored", count, "values", "state before the next update"),),
        claimed="a resumed run goes on from the state that was saved",
        fix=fix,
        names=tuple(value["names"]),
    )
