"""COMP001: results of compiled code."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.compile_calls import USED, case, covers, doubt, findings, mismatches, row

KINDS = ("value", "nan", "integer", "dtype", "shape", "structure")


@check(
    "COMP001",
    Severity.ERROR,
    when=(USED,),
    needs=("compile.calls",),
    covers=covers,
    doubt=doubt,
    good=(case(), case(row(path="gradient of w, random cotangent"))),
    bad=(case(row()), case(row(kind="integer")), case(row(kind="structure", elements=0, wrong=0))),
)
def results(case: Case) -> Iterator[Finding]:
    """Compiled code gives what the original callable gives.

    The original is run on copies of the same inputs, buffers, random state and Python state. Each
    element is held against the original in float64; where that cannot be, against the original.

    Why: compiled code that is silently wrong trains a wrong model while the loss falls.
    Fix: run the repro that the finding names; leave the part out with torch.compiler.disable.
    Source: docs/compile.md
    """
    yield from findings(mismatches(case, *KINDS, gradient=False))
