"""COMP005: compiled code against itself."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.compile_calls import USED, case, covers, doubt, findings, mismatches, row


@check(
    "COMP005",
    Severity.ERROR,
    when=(USED,),
    needs=("compile.calls",),
    covers=covers,
    doubt=doubt,
    good=(case(), case(row())),
    bad=(case(row(kind="race")),),
)
def repeatable(case: Case) -> Iterator[Finding]:
    """Compiled code gives the same again for the same inputs.

    Why: threads that write to one place give another result from run to run.
    Fix: run with one thread (OMP_NUM_THREADS=1) to see whether it goes away, and report it.
    Source: docs/compile.md
    """
    yield from findings(mismatches(case, "race"))
