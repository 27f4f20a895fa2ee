"""KERN001: kernels give what independent witnesses give."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity, Verdict
from reefwatch.core.record import Case
from reefwatch.judge import kernels

_OTHER = kernels.witness("version", False, backed=["interpreter"])


def _doubt(case: Case) -> str:
    """Kernels without a verdict."""
    said = [one for one in kernels.verdicts(case) if one.verdict is Verdict.UNPROVEN]
    if not said:
        return ""
    first = said[0]
    more = f", and {len(said) - 1} more" if len(said) > 1 else ""
    return f"{first.kernel} on {first.target} with Triton {first.version}: {first.reason}{more}"


@check(
    "KERN001",
    Severity.ERROR,
    needs=("kernels.launches",),
    covers=kernels.covers,
    doubt=_doubt,
    good=(
        Case.of(kernels.example(), **kernels.FACTS),
        # one witness against the result is no proof, and with another version's word it holds
        Case.of(
            kernels.example(
                subject__witnesses=[
                    kernels.witness("interpreter", False),
                    kernels.witness("version", True),
                ]
            ),
            **kernels.FACTS,
        ),
    ),
    bad=(
        Case.of(
            kernels.example(subject__witnesses=[kernels.witness("interpreter", False), _OTHER]),
            **kernels.FACTS,
        ),
        Case.of(
            kernels.example(
                subject__witnesses=[kernels.witness("interpreter", False)],
                subject__compares=[3, 2],
            ),
            **kernels.FACTS,
        ),
        Case.of(
            kernels.example(subject__status="stopped", subject__reason="a deadlock"),
            **kernels.FACTS,
        ),
    ),
)
def results(case: Case) -> Iterator[Finding]:
    """Kernels give what independent witnesses give.

    Each launch is compiled for the target and executed, on the virtual GPU or on the card, and its
    result is held against a reference that was named, Triton's interpreter, other compiler
    versions, other targets, other numbers of warps and another order of waves. Wrong is what two
    kinds of witnesses contradict in the same way; a single one that differs leaves it unproven.

    Why: a compiler that drops a comparison or orders two memory accesses wrongly gives numbers
    that look like numbers; several releases of Triton did so on AMD.
    Fix: use a version that is named as good, or another number of warps; report it with the
    text that is written beside the report.
    Source: https://github.com/triton-lang/triton/pull/11313
    """
    said = kernels.verdicts(case)
    told = kernels.history(said)
    for one in said:
        if one.verdict is not Verdict.BROKEN:
            continue
        strongest = next(iter(one.against), None)
        what = "ends early" if one.status == "stopped" else "gives a wrong result"
        evidence = [kernels.told(witness) for witness in one.against]
        if one.ir:
            evidence.append(Evidence("comparisons", one.ir, source="TTIR and TTGIR"))
        evidence.append(Evidence("verdict", one.reason, source="virtual GPU"))
        share = ""
        if strongest is not None:
            share = f": {strongest['different']} of {strongest['of']} values"
        yield Finding(
            f"{one.kernel} on {one.target} with Triton {one.version} {what}{share}; {one.reason}",
            tuple(evidence),
            kernels.place(one.row),
            claimed="the kernel computes what its source says",
            why=one.ir or told.get((one.kernel, one.target), ""),
            fix=told.get((one.kernel, one.target), "") or "try another Triton version (--triton)",
        )
