"""LOOP016: gradients are clipped as was asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case

_EPS = {"bf16": 2.0**-8, "f16": 2.0**-11}
_ROUNDING = 1e-4


def _case(**values: Any) -> Case:
    usual = {
        "limit": 1.0,
        "algorithm": "norm",
        "updates": 5,
        "left_out": 0,
        "dtype": "f32",
        "largest": 1.0,
        "compared": 5,
        "least_ratio": 1.0,
    }
    return Case.of(loop__clip={**usual, **values})


def _covers(case: Case) -> tuple[Coverage, ...]:
    value = case.value("loop.clip")
    return (Coverage("updates", value["updates"], value["updates"] + value["left_out"]),)


@check(
    "LOOP016",
    Severity.ERROR,
    when=("loop.clip",),
    needs=("loop.clip",),
    good=(
        _case(),
        _case(largest=0.3),
        _case(dtype="bf16", largest=1.003, least_ratio=0.997),
        _case(algorithm="value", largest=1.0),
        _case(compared=0),
    ),
    bad=(
        _case(largest=1.2),
        _case(least_ratio=0.1),
        _case(algorithm="value", largest=1.1),
        _case(dtype="bf16", largest=1.1),
    ),
    covers=_covers,
)
def clip(case: Case) -> Iterator[Finding]:
    """Gradients are clipped as the trainer was asked to.

    At updates in examined steps the size of all gradients of an optimizer is taken when they are
    applied, and where the trainer says when they are complete, before the clipping too: afterwards
    it is to be the smaller of that and the limit.

    Why: a hook that clips otherwise, clipping of gradients that are still scaled, or none at all
    leaves another learning rate than the one asked for, and a diverging step unclipped.
    Fix: call the trainer's own `clip_gradients`, after unscaling; look at a hook that overrides it.
    Source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html (gradient clipping)
    """
    value = case.value("loop.clip")
    limit, largest = float(value["limit"]), float(value["largest"])
    dtype = value["dtype"]
    eps = _EPS.get(dtype, 0.0)
    allowed = Tolerance(
        limit * (1 + eps + _ROUNDING), "", f"the limit and one rounding of a {dtype} gradient"
    )
    of = "norm" if value["algorithm"] == "norm" else "largest element"
    said = f"clipping by {value['algorithm']} at {limit:g}"
    if allowed.exceeded_by(largest):
        yield Finding(
            f"gradients reach the optimizer with a {of} of {largest:.4g}, {said} was asked",
            (Evidence("loop.clip", largest, source=f"the {of} at the update"),),
            claimed=said,
            fix="clip after unscaling and before the update, in the hook the trainer has for it",
        )
    least = float(value["least_ratio"])
    floor = 1 - eps - _ROUNDING
    if value["algorithm"] == "norm" and value["compared"] and not least >= floor:
        yield Finding(
            f"clipping leaves {least:.3g} of the {of} that {said} leaves",
            (Evidence("loop.clip", least, source="after the clipping over what was expected"),),
            claimed=said,
            fix="look for a second clipping, or one with another limit",
        )
