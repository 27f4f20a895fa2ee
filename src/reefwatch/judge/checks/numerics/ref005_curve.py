"""REF005: a loss curve outside the band."""

from __future__ import annotations

import math
from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_reference import FLOORS, FOLLOWS, LOW, reference

WIDTH = Tolerance(
    4.0, "times the band", "the band is the widest of a few perturbed runs, not of all"
)
LEAST = Tolerance(1e-3, "relative", "below it a loss is the same for every purpose of training")


def _doubt(case: Case) -> str:
    told = case.value("numerics.curve")
    if not told["band"]:
        return "the reference has no band: record it with --perturb"
    return "" if told["here"] and told["there"] else "no loss was seen on both sides"


@check(
    "REF005",
    Severity.ERROR,
    when=(FOLLOWS,),
    needs=("numerics.curve",),
    good=(
        Case.of(
            numerics__follows=True,
            numerics__reference=reference(),
            numerics__curve={"here": [2.0, 1.5], "there": [2.0, 1.5001], "band": [0.0, 0.001]},
        ),
    ),
    bad=(
        Case.of(
            numerics__follows=True,
            numerics__reference=reference(),
            numerics__curve={"here": [2.0, 1.7], "there": [2.0, 1.5], "band": [0.0, 0.001]},
        ),
    ),
    doubt=_doubt,
)
def curve(case: Case) -> Iterator[Finding]:
    """The loss stays within the band that one ulp of noise makes of the reference's curve.

    Why: training is chaotic, so two right runs part; how fast is measured on the reference itself.
    Fix: see the first step outside and what REF002 to REF004 say of the steps before it.
    Source: perturbed references (--perturb K); the band never narrows.
    """
    told, about = case.value("numerics.curve"), case.known("numerics.reference", {})
    least = LEAST.limit
    if not about.get("same_machine") and about.get("coarsest") in LOW:
        least = FLOORS[about["coarsest"]].limit
    for step, (here, there, band) in enumerate(
        zip(told["here"], told["there"], told["band"], strict=False)
    ):
        allowed = max(WIDTH.limit * band, least * abs(there))
        if math.isfinite(there) and not abs(here - there) <= allowed:
            yield Finding(
                f"the loss of backward {step} is {here:.6g}, the reference has {there:.6g}; "
                f"{allowed:.3g} is allowed",
                (Evidence("difference", abs(here - there), "loss"),),
                Place(step=step),
                claimed="this run follows the reference",
                fix="see what the other REF checks say of the steps before it",
            )
            return
