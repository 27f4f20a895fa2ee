"""REF002: a forward value that leaves the reference."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_reference import (
    FOLLOWS,
    covers,
    first_of,
    reference,
    row,
    rows,
    unseen,
)


@check(
    "REF002",
    Severity.ERROR,
    when=(FOLLOWS,),
    needs=("numerics.reference",),
    covers=covers,
    doubt=lambda case: unseen(case, "setup", "forward"),
    good=(Case.of(row(), numerics__follows=True, numerics__reference=reference()),),
    bad=(
        Case.of(row(slice=0.01), numerics__follows=True, numerics__reference=reference()),
        Case.of(row(bad=True), numerics__follows=True, numerics__reference=reference()),
        Case.of(
            row(value=2e-6, noise={"rerun": {"value": 0, "norm": 0, "slice": 0}}),
            numerics__follows=True,
            numerics__reference=reference(same_machine=True),
        ),
    ),
)
def forward(case: Case) -> Iterator[Finding]:
    """From the same weights and the same batch, every op gives what the reference had.

    The first step, with the reference's weights, batch and masks in place. The first op in order is
    named: what comes after it inherits the error.

    Why: this is where a wrong kernel, a wrong constant or another formula shows first.
    Fix: run with --truth to see whether the op itself is wrong; else compare its constants.
    Source: tolerances from perturbing the reference (TTrace, arXiv 2506.09280), with a floor by
    dtype.
    """
    found = first_of(
        case,
        rows(case, ("setup", "forward"), first=True),
        "the forward leaves the reference",
        "run with --truth: if the op is right, the model or its constants are other ones",
    )
    if found is not None:
        yield found
