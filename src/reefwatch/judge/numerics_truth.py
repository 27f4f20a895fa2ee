"""What the checks of the truth have in common: rows, coverage, doubts, words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place
from reefwatch.core.record import Case, Event

ASKED = "numerics.asked"
MOST = 5
"""Places named in one finding."""


def row(**changes: Any) -> Event:
    """A row as the instrument writes it, for good and bad cases."""
    data: dict[str, Any] = {
        "op": "aten.mm.default",
        "dtype": "f32",
        "shape": [64, 32],
        "rule": "rounding bound",
        "witness": "own formula",
        "elements": 2048,
        "share": 1.0,
        "judged": 1,
        "error": 0.1,
        "wrong": 0,
        "index": [0, 0],
        "got": 1.0,
        "truth": 1.0,
        "allowed": 1e-6,
        "output": 0,
        "module": "fc",
        "file": "/model.py",
        "line": 7,
        "phase": "forward",
        "step": 0,
    }
    return Event("numerics.op", {**data, **changes}, id="0")


def truth(**changes: Any) -> dict[str, Any]:
    """The fact `numerics.truth`, for good and bad cases."""
    value: dict[str, Any] = {
        "judged": 10,
        "of": 10,
        "calls": 12,
        "left": 0,
        "unproven": {},
        "seconds": 1.0,
    }
    return {**value, **changes}


def covers(case: Case) -> tuple[Coverage, ...]:
    """Of the distinct ops (op, shapes, dtypes), how many were judged."""
    told = case.value("numerics.truth")
    return (Coverage("distinct ops", told["judged"], told["of"]),)


def doubt(case: Case) -> str:
    """Why nothing can be said when no op was judged."""
    told = case.value("numerics.truth")
    if told["judged"]:
        return ""
    reasons = sorted(told["unproven"], key=lambda reason: -told["unproven"][reason])
    return "no op could be judged" + (f": {reasons[0]}" if reasons else "")


def by_op(rows: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Rows of one op and dtype together, the worst first."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in rows:
        groups.setdefault((one["op"], one["dtype"]), []).append(one)
    return list(groups.values())


def place(one: Mapping[str, Any]) -> Place:
    return Place(one["module"], one["op"], one["file"], one["line"], one["step"])


AGAIN = {
    "same": "run again on the same inputs it was wrong in the same bits: not of the moment",
    "right": "run again on the same inputs it was right: of the moment (a bit that flipped, a "
    "race, a buffer that was used too early)",
    "other": "run again on the same inputs it was wrong in another way: a race, or memory that "
    "nobody wrote",
}
ELSEWHERE = {
    "right": "the CPU computes it right in the same dtype: the kernel of this device is at fault",
    "wrong": "the CPU gives it wrong too in the same dtype: the software that both share is",
}


def cause(one: Mapping[str, Any]) -> str:
    """What a second run of the op showed, in words; empty when there was none."""
    parts = (AGAIN.get(one.get("again", "")), ELSEWHERE.get(one.get("elsewhere", "")))
    return "; ".join(part for part in parts if part)


def finding(group: list[Mapping[str, Any]], message: str, *evidence: Evidence, why: str) -> Finding:
    """One finding for an op that is wrong at some places."""
    worst = group[0]
    places = sorted({one["module"] for one in group if one["module"]})
    return Finding(
        message,
        evidence,
        place(worst),
        claimed="each op computes what it is defined to compute",
        why="; ".join(part for part in (why, cause(worst)) if part),
        fix="run the op alone on the same inputs and on another device; if it stays wrong there is "
        "a kernel to report: the record has the shapes, the element and both values",
        names=tuple(places[:MOST]) if len(places) > 1 else (),
    )
