"""MACH213: drift from the lock, of the grade "speed"."""

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
    return drifts.doubt(case, drifts.SPEED)


@check(
    "MACH213",
    Severity.ERROR,
    needs=("lock.there", "lock.here"),
    good=(_case(), _case("system", "os", "a", "b"), _case("packages", "torch", "2.13.0", "2.14.0")),
    bad=(
        _case("system", "kernel", "6.8.0-49", "6.11.0-8"),
        _case("environment", "HSA_ENABLE_INTERRUPT", None, "0"),
    ),
    covers=drifts.covers,
    doubt=_doubt,
)
def can_change_speed(case: Case) -> Iterator[Finding]:
    """Nothing that can change speed has drifted from the lock.

    Why: a benchmark against last month's numbers compares two environments and not two programs.
    Fix: bring back what is locked, or lock anew once the difference was looked at.
    Limits: grades are by kind and by the table of variables, not by what this run uses of it. What
    could not be read on one side is no drift: the claim is then unproven.
    Source: docs/lock.md.
    """
    yield from drifts.findings(case, drifts.SPEED)
