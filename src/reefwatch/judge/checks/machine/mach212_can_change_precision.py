"""MACH212: drift from the lock, of the grade "precision"."""

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
    return drifts.doubt(case, drifts.PRECISION)


@check(
    "MACH212",
    Severity.ERROR,
    needs=("lock.there", "lock.here"),
    good=(_case(), _case("packages", "torch", "2.13.0", "2.14.0"), _case("system", "os", "a", "b")),
    bad=(
        _case("flags", "cuda.matmul.allow_tf32", False, True),
        _case("flags", "default_dtype", "torch.float32", "torch.bfloat16"),
    ),
    covers=drifts.covers,
    doubt=_doubt,
)
def can_change_precision(case: Case) -> Iterator[Finding]:
    """Nothing that can change precision has drifted from the lock.

    Why: a TF32 or reduced-precision flag changes the accuracy of every matrix product, and no
    message tells.
    Fix: bring back what is locked, or lock anew once the difference was looked at.
    Limits: grades are by kind and by the table of variables, not by what this run uses of it. What
    could not be read on one side is no drift: the claim is then unproven.
    Source: docs/lock.md.
    """
    yield from drifts.findings(case, drifts.PRECISION)
