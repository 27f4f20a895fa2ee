"""KERN002: kernels keep the rules of the machine while they run."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import kernels

_RACE = {
    "kind": "lds-races",
    "message": "wave 1 reads LDS bytes that wave 0 writes with no barrier between",
    "line": 40,
    "instruction": "ds_load_b32 v1, v2",
    "loc": "kernels.py:12",
    "times": 3,
}


@check(
    "KERN002",
    Severity.ERROR,
    needs=("kernels.launches", "kernels.observers"),
    covers=kernels.covers,
    good=(Case.of(kernels.example(), **kernels.FACTS),),
    bad=(
        Case.of(kernels.example(subject__reports=[_RACE]), **kernels.FACTS),
        Case.of(
            kernels.example(subject__reports=[_RACE]),
            kernels.example(version="3.9.0"),
            **kernels.FACTS,
        ),
    ),
)
def observed(case: Case) -> Iterator[Finding]:
    """Kernels keep the rules of the machine while they run.

    Observers of the virtual GPU: accesses outside every argument, registers and LDS read before
    they are written, loads used before they are waited for, LDS races between waves, lanes that
    store different values to one address, stores not waited for before a barrier, barriers that
    some waves never reach, matrix instructions under partial EXEC, stale caches after an acquire.
    What is seen in one build alone is a warning; what another build of the same kernel does not do,
    or all of them do, is an error.

    Why: such a program may give the right result today and a wrong one on the next card, at the
    next clock or with the next wave order.
    Fix: look at the line that is named. In every build it is the kernel's own (a missing mask, a
    missing barrier); in one version alone it is the compiler's.
    Source: docs/isa.md, section Observers
    """
    for row in kernels.rows(case):
        for target, subject in row.get("subjects", {}).items():
            for report in subject.get("reports", ()):
                kind = str(report["kind"])
                grade, other = kernels.graded(case, "reports", kind, row, target)
                yield Finding(
                    f"{row['kernel']} on {target} with Triton {row['version']}: {kind}: "
                    f"{report['message']}; {other}",
                    (Evidence(kind, str(report["instruction"]), source="observer", grade=grade),),
                    kernels.where(str(report.get("loc", "")), row),
                    why=other,
                )
