"""COMP003: what compiled code leaves changed."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.compile_calls import USED, case, covers, doubt, findings, mismatches, row

KINDS = ("state", "sharing", "printed")


@check(
    "COMP003",
    Severity.ERROR,
    when=(USED,),
    needs=("compile.calls",),
    covers=covers,
    doubt=doubt,
    good=(case(), case(row())),
    bad=(case(row(kind="state", path="args[0] afterwards")), case(row(kind="sharing"))),
)
def state(case: Case) -> Iterator[Finding]:
    """Compiled code changes what the original changes, and nothing else.

    Inputs written in place, buffers (batch statistics, caches), attributes of modules and objects,
    globals and closures; which result shares its storage with which input.

    Why: a lost write to a buffer shows only later, as an evaluation worse than the training.
    Fix: run the repro that the finding names; write into buffers with an explicit copy_.
    Source: docs/compile.md
    """
    yield from findings(mismatches(case, *KINDS))
