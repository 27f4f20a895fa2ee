"""REF004: an update that leaves the reference."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_reference import (
    FOLLOWS,
    beyond,
    covers,
    first_of,
    negligible,
    reference,
    row,
    rows,
    unseen,
    worst_first,
)

_BEFORE = ("setup", "forward", "backward", "gradient")


@check(
    "REF004",
    Severity.ERROR,
    when=(FOLLOWS,),
    needs=("numerics.reference",),
    covers=covers,
    doubt=lambda case: unseen(case, "weight", "parameter", before=_BEFORE),
    good=(
        Case.of(
            row(phase="parameter", op="parameter", module="fc.weight"),
            numerics__follows=True,
            numerics__reference=reference(),
        ),
    ),
    bad=(
        Case.of(
            row(phase="parameter", op="parameter", module="fc.weight", value=0.01, step=1, order=9),
            numerics__follows=True,
            numerics__reference=reference(),
        ),
    ),
)
def update(case: Case) -> Iterator[Finding]:
    """From the same gradients, the optimizer makes the updates of the reference.

    Each parameter before and after its update, at the steps of the ladder; of the first step that
    differs the parameter that is farthest off. Later steps have the noise of their own, where it
    was measured.

    Why: a wrong momentum, decay or rate changes nothing that a single forward or backward shows.
    Fix: compare the optimizer's class, groups and arguments with those of the reference.
    Source: per-parameter values against the reference; tolerances as in REF002.
    """
    earlier = rows(case, _BEFORE, first=True)
    if any(beyond(case, one)[0] for one in earlier):
        return
    lost = negligible(case)
    told = [one for one in rows(case, ("weight", "parameter")) if one["module"] not in lost]
    found = first_of(
        case,
        worst_first(case, told),
        "the update leaves the reference",
        "compare the optimizer's class, groups and arguments with those of the reference",
    )
    if found is not None:
        yield found
