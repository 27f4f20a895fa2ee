"""What a check was written for, and how a record differs from it.

A record of another version, or one that was edited with its checksums, may name a fact that has
another form today. The check then fails over it; this tells that from a fault of the check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from reefwatch.core.check import Check
from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record

_LARGE = 2**63
"""No count of anything comes here, and a float cannot hold all of what lies far above."""


def foreign(check: Check, record: Record, others: Iterable[Check]) -> str:
    """The first thing in the record that has another form than in the check's cases, or "".

    What its own cases do not hold is looked up in those of the others.
    """
    told: set[str] = set()
    for one in (check, *others):
        wrong = _foreign([case.record for case in (*one.good, *one.bad)], record, told)
        if wrong:
            return wrong
    return ""


def _foreign(cases: Sequence[Record], record: Record, told: set[str]) -> str:
    """The same for some cases, without the names that are `told` already; adds theirs."""
    names = {name for case in cases for name in case.facts} - told
    kinds = {event.kind for case in cases for event in case.events} - told
    told |= names | kinds
    for name in sorted(names):
        fact = record.facts.get(name)
        if isinstance(fact, Evidence):
            known = [f.value for c in cases if isinstance(f := c.facts.get(name), Evidence)]
            wrong = _differs(fact.value, known)
            if wrong:
                return f"{name} {wrong}"
    for kind in sorted(kinds):
        known = [event.data for case in cases for event in case.events if event.kind == kind]
        for event in record.events:
            if event.kind == kind and (wrong := _differs(event.data, known)):
                return f"a row of {kind} {wrong}"
    return ""


def _differs(value: Any, known: Sequence[Any]) -> str:
    """How a value differs from all of the known ones in form, or ""."""
    kinds = {_kind(one) for one in known}
    if kinds and _kind(value) not in kinds:
        return f"is {_kind(value)}, not {' or '.join(sorted(kinds))}"
    if isinstance(value, Mapping):
        tables = [one for one in known if isinstance(one, Mapping)]
        always = set.intersection(*(set(one) for one in tables)) if tables else set()
        for key in sorted(always - set(value)):
            return f"has no {key!r}"
        parts = [part for one in tables for part in one.values()]
        for key, part in value.items():
            seen = [one[key] for one in tables if key in one] or parts
            wrong = _differs(part, seen) if seen else ""
            if wrong:
                return f"has a {key!r} that {wrong}"
    if isinstance(value, (list, tuple)):
        lists = [one for one in known if isinstance(one, (list, tuple))]
        if not value and lists and all(lists):
            return "is empty"
        inside = [part for one in lists for part in one]
        row = len({len(one) for one in lists}) == 1 and len({_kind(part) for part in inside}) > 1
        if row and len(value) != len(lists[0]):
            return f"has {len(value)} parts, not {len(lists[0])}"
        for at, part in enumerate(value):
            known = [one[at] for one in lists] if row else inside
            wrong = _differs(part, known) if known else ""
            if wrong:
                return f"has a part that {wrong}"
    return ""


def _kind(value: Any) -> str:
    """The form of a value, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, float) and not isfinite(value):
        return "not finite"
    if isinstance(value, int) and abs(value) >= _LARGE:
        return "too large"
    kinds: Iterable[tuple[Any, str]] = (
        (bool, "yes or no"),
        ((int, float), "a number"),
        (str, "text"),
        (Mapping, "a table"),
    )
    return next((words for kind, words in kinds if isinstance(value, kind)), "a list")
