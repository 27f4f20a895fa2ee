"""KERN004: candidates of an autotuner agree."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import kernels

_ODD = kernels.witness("candidate", False, mine="BLOCK=64, num_warps=2")
_SAME = kernels.witness("candidate", True)


@check(
    "KERN004",
    Severity.ERROR,
    needs=("kernels.launches",),
    covers=kernels.covers,
    good=(Case.of(kernels.example(subject__witnesses=[_SAME]), **kernels.FACTS),),
    bad=(
        Case.of(kernels.example(subject__witnesses=[_ODD]), **kernels.FACTS),
        Case.of(
            kernels.example(subject__witnesses=[{**_ODD, "backed": ["interpreter"]}]),
            **kernels.FACTS,
        ),
    ),
)
def candidates(case: Case) -> Iterator[Finding]:
    """Candidates of an autotuner agree.

    Two configurations of one kernel that were given the same inputs give the same result, within
    what rounding explains.

    Why: the autotuner takes the fastest, whatever it computes; another machine takes another one.
    Fix: take the configuration that is named out of the list, and report it.
    Source: https://triton-lang.org/main/python-api/generated/triton.autotune.html
    """
    for row in kernels.rows(case):
        for target, subject in row.get("subjects", {}).items():
            for one in subject.get("witnesses", ()):
                if one["kind"] != "candidate" or one["agrees"]:
                    continue
                backed = bool(one.get("backed"))
                grade = Grade.MEASURED if backed else Grade.PREDICTED
                value = {key: one.get(key) for key in ("different", "of", "values")}
                yield Finding(
                    f"{row['kernel']} on {target}: {one.get('mine', 'this build')} and "
                    f"{one['name']} differ in {one['different']} of {one['of']} values",
                    (Evidence("candidate", value, source="same inputs", grade=grade),),
                    kernels.place(row),
                    why="Triton's interpreter is with the other one" if backed else "",
                )
