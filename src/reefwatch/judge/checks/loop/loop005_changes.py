"""LOOP005: parameters change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event

_HARMLESS = "gradient is zero up to rounding"
_FIX = {
    "learning rate is 0": "give the group a learning rate, or freeze it with requires_grad_(False)",
    "gradient is zero": "look for dead units, or for a factor of 0 behind it",
    "update is lost in rounding": "keep a float32 copy of the weights (mixed precision), or round "
    "stochastically",
}


def _param(cause: str, problem: str = "not changing") -> Event:
    data = {
        "name": "fc.weight",
        "problem": problem,
        "elements": 640,
        "cause": cause,
        "file": "/train.py",
        "line": 12,
    }
    return Event("loop.param", data, id="0")


def _covers(case: Case) -> tuple[Coverage, ...]:
    value = case.value("loop.params")
    changes = case.value("loop.changes")
    return (
        Coverage("updates", value["updates_watched"], value["updates"]),
        Coverage("parameters", changes["known"], changes["of"]),
    )


_FACTS: dict[str, Any] = {
    "loop__training": True,
    "loop__params": {"trainable": 4, "in_optimizer": 4, "updates_watched": 4, "updates": 9},
    "loop__changes": {"known": 4, "of": 4},
}


@check(
    "LOOP005",
    Severity.WARNING,
    when=("loop.training",),
    needs=("loop.params", "loop.changes"),
    good=(
        Case.of(**_FACTS),
        Case.of(_param(_HARMLESS), **_FACTS),
        Case.of(_param("", problem="no gradient"), **_FACTS),
    ),
    bad=tuple(Case.of(_param(cause), **_FACTS) for cause in _FIX),
    covers=_covers,
)
def changes(case: Case) -> Iterator[Finding]:
    """Every parameter that an optimizer updates changes.

    The bits of the parameter are the same after several updates as before them, though it got
    gradients: its learning rate is 0, its gradient is exactly 0, or the update is smaller than half
    the distance to the next number of its dtype (bfloat16 has 8 bits: a change below 1/512 of the
    value is lost). A bias before a normalisation, whose gradient is zero but for rounding, is left
    out.

    Why: a part of the model does not learn.
    Fix: by cause, as the finding says.
    Source: https://arxiv.org/abs/2010.06192 (revisiting bfloat16 training)
    """
    by_cause: dict[str, list[Any]] = {}
    for row in case.rows("loop.param"):
        if row.data["problem"] == "not changing" and row.data["cause"] != _HARMLESS:
            by_cause.setdefault(row.data["cause"], []).append(row.data)
    for cause, rows in by_cause.items():
        names = ", ".join(data["name"] for data in rows[:3]) + (", ..." if len(rows) > 3 else "")
        yield Finding(
            f"{len(rows)} parameters never change: {names}; {cause}",
            (Evidence("loop.param", len(rows), "parameters", "bits, first look against last"),),
            Place(module=rows[0]["name"], file=rows[0]["file"], line=rows[0]["line"]),
            why=cause,
            fix=_FIX.get(cause, ""),
            names=tuple(data["name"] for data in rows),
        )
