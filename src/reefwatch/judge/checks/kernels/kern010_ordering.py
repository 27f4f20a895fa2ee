"""KERN010: the machine code keeps the order of memory."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import kernels

KINDS = (
    "reads at a barrier",
    "acquire without invalidate",
    "missing wait on a path",
    "software wait",
    "LDS",
)
_READS = {
    "kind": "reads at a barrier",
    "message": "16 LDS reads are under way at a barrier in the same block",
    "line": 300,
    "instruction": "s_barrier",
    "loc": "kernels.py:19",
}
_SCAN = {"facts": {}, "matrix": {}, "found": [_READS], "unscanned": []}


def _doubt(case: Case) -> str:
    for row in kernels.rows(case):
        for target, subject in row.get("subjects", {}).items():
            if subject.get("scan", {}).get("unscanned"):
                missing = kernels.listed(map(str, subject["scan"]["unscanned"]))
                return f"{row['kernel']} on {target} could not be scanned for {missing}"
    return ""


@check(
    "KERN010",
    Severity.ERROR,
    needs=("kernels.launches",),
    covers=kernels.covers,
    doubt=_doubt,
    good=(Case.of(kernels.example(), **kernels.FACTS),),
    bad=(Case.of(kernels.example(subject__scan=_SCAN), **kernels.FACTS),),
)
def ordering(case: Case) -> Iterator[Finding]:
    """The machine code keeps the order of memory.

    Read in the assembly text, over all paths, run or not: LDS reads under way at a barrier, a load
    after an acquire whose cache was not told to forget, a register used before its load is waited
    for, instructions nearer than gfx9 allows, more LDS than the device has. What is seen in one
    build alone is a warning; what another build does not have is an error.

    Why: results stay right on most runs, and fail at another clock or another schedule.
    Fix: use a version whose code does not have it, or another schedule (`num_stages`, warps).
    Source: https://github.com/triton-lang/triton/issues/11696,
    https://github.com/triton-lang/triton/pull/11289
    """
    for row in kernels.rows(case):
        for target, subject in row.get("subjects", {}).items():
            for found in subject.get("scan", {}).get("found", ()):
                kind = str(found["kind"])
                if kind not in KINDS:
                    continue
                grade, other = kernels.graded(case, "scan", kind, row, target)
                yield Finding(
                    f"{row['kernel']} on {target} with Triton {row['version']}: "
                    f"{found['message']}; {other}",
                    (Evidence(kind, str(found["instruction"]), source="text", grade=grade),),
                    kernels.where(str(found.get("loc", "")), row),
                    why=other,
                )
