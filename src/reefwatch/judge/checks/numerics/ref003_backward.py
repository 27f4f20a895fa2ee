"""REF003: a gradient that leaves the reference."""

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
    rounding,
    row,
    rows,
    unseen,
)

_BEFORE = ("setup", "forward")


@check(
    "REF003",
    Severity.ERROR,
    when=(FOLLOWS,),
    needs=("numerics.reference",),
    covers=covers,
    doubt=lambda case: unseen(case, "backward", "gradient", before=_BEFORE),
    good=(
        Case.of(
            row(phase="gradient", op="gradient", module="fc.weight"),
            numerics__follows=True,
            numerics__reference=reference(),
        ),
        Case.of(
            row(phase="backward", op="aten.sum", module="fc", size=1e-12, value=0.5),
            row(phase="gradient", op="gradient", module="fc.weight", size=0.1, order=6),
            row(phase="gradient", op="gradient", module="fc.bias", size=1e-12, value=0.5, order=7),
            numerics__follows=True,
            numerics__reference=reference(),
        ),
    ),
    bad=(
        Case.of(
            row(phase="gradient", op="gradient", module="fc.weight", norm=0.5, value=0.5),
            numerics__follows=True,
            numerics__reference=reference(),
        ),
    ),
)
def backward(case: Case) -> Iterator[Finding]:
    """From the same forward, every gradient is that of the reference.

    Backward ops and the gradient of each parameter as the optimizer gets it, in the first step. Not
    judged where the forward has left already (REF002): the gradients follow from it.

    Why: a gradient that is half as large trains, slowly; nothing else shows it.
    Fix: look for hooks on the parameter, clipping, accumulation, and custom autograd functions.
    Source: per-parameter norm and values against the reference; tolerances as in REF002.
    """
    if any(beyond(case, one)[0] for one in rows(case, _BEFORE, first=True)):
        return
    lost = negligible(case)
    made = rounding(case, lost)
    found = first_of(
        case,
        [
            one
            for one in rows(case, ("backward", "gradient"), first=True)
            if (one["phase"] != "gradient" or one["module"] not in lost)
            and (one["module"], one.get("size")) not in made
        ],
        "the backward leaves the reference",
        "look for hooks, clipping or a scale on this parameter, and custom autograd functions",
    )
    if found is not None:
        yield found
