"""COMP004: errors of compiled code."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.compile_calls import USED, case, covers, doubt, findings, mismatches, row


@check(
    "COMP004",
    Severity.ERROR,
    when=(USED,),
    needs=("compile.calls",),
    covers=covers,
    doubt=doubt,
    good=(case(), case(row())),
    bad=(case(row(kind="exception", path="exception")),),
)
def exceptions(case: Case) -> Iterator[Finding]:
    """Compiled code raises where the original raises, and nowhere else.

    Why: a check of an index or a range that is lost turns wrong data into numbers.
    Fix: repair the input that the original refuses; report the lost check upstream.
    Source: docs/compile.md
    """
    yield from findings(mismatches(case, "exception"))
