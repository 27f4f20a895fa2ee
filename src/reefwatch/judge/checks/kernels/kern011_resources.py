"""KERN011: kernels use the registers and matrix units that they could."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import kernels

KINDS = ("spill", "no matrix core", "reduced precision")
_NONE = {
    "kind": "no matrix core",
    "message": "2032 multiply-adds and no matrix instruction",
    "line": 90,
    "instruction": "v_fmac_f32 v1, v2, v3",
    "loc": "kernels.py:21",
}
_SCAN = {"facts": {}, "matrix": {}, "found": [_NONE], "unscanned": []}


@check(
    "KERN011",
    Severity.WARNING,
    needs=("kernels.launches",),
    covers=kernels.covers,
    good=(Case.of(kernels.example(), **kernels.FACTS),),
    bad=(Case.of(kernels.example(subject__scan=_SCAN), **kernels.FACTS),),
)
def resources(case: Case) -> Iterator[Finding]:
    """Kernels use the registers and matrix units that they could.

    Read in the assembly text: registers that go to memory (spills), a product that runs on
    multiply-adds because the target has no matrix instruction for its dtype or shape, an fp32
    product that is computed in xf32 with 10 bits of mantissa.

    Why: the first two cost a multiple of the time, the third changes digits without a word.
    Fix: fewer warps or smaller tiles against spills; another dtype where there is no matrix
    instruction; `input_precision="ieee"` against xf32.
    Source: docs/isa.md, section Scanning without running
    """
    seen = set()
    for row in kernels.rows(case):
        for target, subject in row.get("subjects", {}).items():
            for found in subject.get("scan", {}).get("found", ()):
                key = (row["kernel"], target, row["version"], found["kind"], found.get("loc"))
                if found["kind"] not in KINDS or key in seen:
                    continue
                seen.add(key)
                yield Finding(
                    f"{row['kernel']} on {target} with Triton {row['version']}: {found['message']}",
                    (Evidence(str(found["kind"]), str(found["instruction"]), source="text"),),
                    kernels.where(str(found.get("loc", "")), row),
                )
