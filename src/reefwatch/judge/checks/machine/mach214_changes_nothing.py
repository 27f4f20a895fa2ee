"""MACH214: drift from the lock, of the grade "nothing"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import drifts


def _case(section: str = "packages", key: str = "torch", old: Any = "1", new: Any = "1") -> Case:
    there = {section: {} if old is None else {key: old}}
    here = {section: {} if new is None else {key: new}}
    return Case.of(lock__there=there, lock__here=here)


def _doubt(case: Case) -> str:
    return drifts.doubt(case, drifts.NOTHING)


@check(
    "MACH214",
    Severity.NOTE,
    needs=("lock.there", "lock.here"),
    good=(
        _case(),
        _case("packages", "torch", "2.13.0", "2.14.0"),
        _case("system", "kernel", "a", "b"),
    ),
    bad=(
        _case("system", "os", "Ubuntu 24.04.3", "Ubuntu 24.04.4"),
        _case("packages", "rich", "13.9", "14.0"),
    ),
    covers=drifts.covers,
    doubt=_doubt,
)
def changes_nothing(case: Case) -> Iterator[Finding]:
    """What cannot change a run is as locked too.

    Why: it is said so that the lock can be brought up to date; it breaks nothing.
    Fix: bring back what is locked, or lock anew once the difference was looked at.
    Limits: grades are by kind and by the table of variables, not by what this run uses of it. What
    could not be read on one side is no drift: the claim is then unproven.
    Source: docs/lock.md.
    """
    yield from drifts.findings(case, drifts.NOTHING)
