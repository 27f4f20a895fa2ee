"""MACH211: drift from the lock, of the grade "results"."""

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
    return drifts.doubt(case, drifts.RESULTS)


@check(
    "MACH211",
    Severity.ERROR,
    needs=("lock.there", "lock.here"),
    good=(_case(), _case("system", "kernel", "6.8", "6.9"), _case("packages", "rich", "13", "14")),
    bad=(
        _case("packages", "torch", "2.13.0+rocm7.2", "2.14.1+rocm7.14"),
        _case("libraries", "torch/lib/libtorch_hip.so", "sha256:a", "sha256:b"),
        _case("environment", "HSA_OVERRIDE_GFX_VERSION", None, "11.0.0"),
        _case("gpu", "0.gfx", "gfx1100", "gfx1101"),
        _case("system", "driver", "amdgpu dkms 6.16.13", None),
    ),
    covers=drifts.covers,
    doubt=_doubt,
)
def can_change_results(case: Case) -> Iterator[Finding]:
    """Nothing that can change results has drifted from the lock.

    Why: another build of a kernel sums in another order, another driver or firmware has other
    faults, another variable chooses another algorithm. Numbers that moved are then no finding about
    the model.
    Fix: bring back what is locked, or lock anew once the difference was looked at.
    Limits: grades are by kind and by the table of variables, not by what this run uses of it. What
    could not be read on one side is no drift: the claim is then unproven.
    Source: docs/lock.md.
    """
    yield from drifts.findings(case, drifts.RESULTS)
