"""COMP002: gradients through compiled code."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.compile_calls import (
    USED,
    case,
    covers,
    doubt_gradients,
    findings,
    mismatches,
    row,
)

KINDS = ("value", "nan", "integer", "dtype", "shape", "structure")
PATH = "gradient of weight, random cotangent"


@check(
    "COMP002",
    Severity.ERROR,
    when=(USED, "compile.differentiated"),
    needs=("compile.calls",),
    covers=covers,
    doubt=doubt_gradients,
    good=(
        Case.of(
            row(),
            compile__used=True,
            compile__differentiated=True,
            compile__calls=case().value("compile.calls"),
        ),
    ),
    bad=(
        Case.of(
            row(path=PATH),
            compile__used=True,
            compile__differentiated=True,
            compile__calls=case().value("compile.calls"),
        ),
    ),
)
def gradients(case: Case) -> Iterator[Finding]:
    """Gradients through compiled code are those of the original callable.

    Of every input and parameter, for a random cotangent and for the one that `sum()` sends.

    Why: the forward pass can be right while its gradient is not; the model then learns otherwise.
    Fix: run the repro that the finding names; leave the part out with torch.compiler.disable.
    Source: docs/compile.md
    """
    yield from findings(mismatches(case, *KINDS, gradient=True))
