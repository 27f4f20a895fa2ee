"""What the checks of `reefwatch dist` share: rows `dist.step` (docs/record.md), by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place
from reefwatch.core.record import Case, Event

Row = Mapping[str, Any]
Wanted = Callable[[Row], bool]
_TOLD = 6
"""Dtypes that are named."""
_ANSWERED = ("right", "wrong")


def row(state: str = "right", **parts: Any) -> Event:
    """A row as cases have it."""
    told = {"phase": "matrix", "name": "all_gather float32", "form": "all_gather", "op": ""}
    more = {"dtype": "float32", "state": state, "detail": "", "why": "", "outside": ""}
    data = {**told, **more, **parts}
    return Event("dist.step", data, id=str(data["name"]))


def case(phase: str, *rows: Event, **facts: Any) -> Case:
    """A case of one phase."""
    states = [str(event.data["state"]) for event in rows]
    count = {state: states.count(state) for state in set(states)}
    told = {f"dist__{phase}": {"of": len(rows), **count}, **facts}
    return Case.of(*rows, **told)


def rows(case: Case, wanted: Wanted) -> list[Row]:
    """The data of the rows that a check is about."""
    return [event.data for event in case.rows("dist.step") if wanted(event.data)]


def findings(
    case: Case, wanted: Wanted, what: Callable[[Row], str], why: str, fix: str, reasons: bool = True
) -> Iterator[Finding]:
    """One finding for what went wrong alike: the same words, put together over dtypes.

    With `reasons` what is known of the cause sets them apart.
    """
    alike: dict[tuple[str, str], list[Row]] = {}
    for told in rows(case, wanted):
        if told["state"] == "wrong":
            reason = str(told.get("why") or "") if reasons else ""
            alike.setdefault((what(told), reason), []).append(told)
    for (words, reason), some in alike.items():
        kinds = [str(one["dtype"]) for one in some if one.get("dtype")]
        more = f" and {len(kinds) - _TOLD} more" if len(kinds) > _TOLD else ""
        of = f" ({', '.join(kinds[:_TOLD])}{more})" if kinds else ""
        first = some[0]
        yield Finding(
            f"{words}{of}" + (f": {reason}" if reason else ""),
            (Evidence("dist.step", dict(first), source="data that tells its rank and place"),),
            Place(op=str(first.get("form") or first["name"])),
            why=f"{first['detail']}" + (f". {why}" if why else ""),
            fix=fix,
        )


def covers(wanted: Wanted, what: str) -> Callable[[Case], tuple[Coverage, ...]]:
    """How many of the rows were answered by the backend (and not refused)."""

    def of(case: Case) -> tuple[Coverage, ...]:
        some = rows(case, wanted)
        done = [told for told in some if told["state"] in _ANSWERED]
        return (Coverage(what, len(done), len(some)),) if some else ()

    return of


def doubt(wanted: Wanted) -> Callable[[Case], str]:
    """Says so when no row was answered, or some could not be judged."""

    def of(case: Case) -> str:
        some = rows(case, wanted)
        if not some:
            return "none of these was run"
        if all(told["state"] == "unsupported" for told in some):
            return f"the backend refuses all of them: {some[0]['detail']}"
        open_ = [told for told in some if told["state"] in ("error", "hang", "lost")]
        if open_:
            return f"{open_[0]['name']}: {open_[0]['detail']}"
        return ""

    return of
