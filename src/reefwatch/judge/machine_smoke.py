"""What the checks of smoke tests share: a test gives one row per device (docs/record.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding
from reefwatch.core.record import Case

DEEP = "machine.deep"
_WORDS = {
    "wrong": "gives wrong numbers",
    "error": "fails",
    "crash": "ends the process",
    "hang": "does not end",
}


def row(state: str = "ok", detail: str = "", device: str = "cuda:0") -> dict[str, Any]:
    """A row as cases have it."""
    return {"device": device, "state": state, "detail": detail, "seconds": 1.0}


def case(name: str, *rows: dict[str, Any]) -> Case:
    """A case of one smoke test."""
    return Case.of(**{"machine__deep": True, f"smoke__{name}": list(rows)})


def findings(case: Case, name: str, what: str, why: str, fix: str) -> Iterator[Finding]:
    """A finding for each device on which the test did not end well."""
    for told in case.value(f"smoke.{name}"):
        words = _WORDS.get(told["state"])
        if words is None:
            continue
        detail = f": {told['detail'][:240]}" if told["detail"] else ""
        yield Finding(
            f"{what} on {told['device']} {words}{detail}",
            (Evidence(f"smoke.{name}", dict(told), source="a child process"),),
            why=why,
            fix=fix,
        )


def doubt(name: str) -> Any:
    """Says so when the test was skipped on each device."""

    def of(case: Case) -> str:
        rows = case.value(f"smoke.{name}")
        skipped = [told["detail"] for told in rows if told["state"] == "skipped"]
        return skipped[0] if skipped and len(skipped) == len(rows) else ""

    return of


def covers(name: str) -> Any:
    """On how many devices the test ran."""

    def of(case: Case) -> tuple[Coverage, ...]:
        rows = case.value(f"smoke.{name}")
        ran = [told for told in rows if told["state"] != "skipped"]
        return (Coverage("devices", len(ran), len(rows)),)

    return of
