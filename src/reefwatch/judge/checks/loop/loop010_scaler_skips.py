"""LOOP010: few updates are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case

_SKIPPED = Tolerance(
    0.01,
    "share of the steps after the first scale was found",
    "a scaler that grows every 2000 steps skips about one update each time, 0.0005",
)
_ONE_OFF = Tolerance(2, "steps", "one or two skips in a short run are no rate yet")
_SEARCH = Tolerance(16, "steps", "halving the usual first scale of 65536 sixteen times leads to 1")


def _case(**parts: Any) -> Case:
    value = {"used": True, "dtype": "f16", "steps": 1000, "skipped": 3, "initial": 2}
    return Case.of(loop__scaled=True, loop__scaler={**value, **parts})


def _covers(case: Case) -> tuple[Coverage, ...]:
    steps = case.value("loop.scaler")["steps"]
    return (Coverage("scaler steps", steps, steps),)


@check(
    "LOOP010",
    Severity.WARNING,
    when=("loop.scaled",),
    needs=("loop.scaler",),
    good=(_case(), _case(steps=8, skipped=5, initial=5)),
    bad=(_case(skipped=200), _case(steps=40, skipped=40, initial=40)),
    covers=_covers,
)
def scaler_skips(case: Case) -> Iterator[Finding]:
    """The GradScaler skips few updates.

    The skips at the start, while the scaler looks for its first scale, are left out, up to
    sixteen.

    Why: a skipped update is a batch thrown away; a scaler that keeps skipping has gradients that
    are not finite at any scale.
    Fix: look for NaN or Inf in the loss (LOOP006, LOOP007); keep norms, softmax and losses in
    float32; or use bfloat16, which needs no scaler.
    Source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-scaling
    """
    value = case.value("loop.scaler")
    later = value["steps"] - value["initial"]
    skipped = value["skipped"] - value["initial"]
    often = _ONE_OFF.exceeded_by(skipped) and _SKIPPED.exceeded_by(skipped / later)
    if often or _SEARCH.exceeded_by(value["initial"]):
        scale = "" if value.get("scale") is None else f"; the scale is {value['scale']:g}"
        yield Finding(
            f"{value['skipped']} of {value['steps']} updates were skipped{scale}",
            (Evidence("loop.scaler", value["skipped"], "steps", "GradScaler.step"),),
            claimed=f"{_SKIPPED.limit:.0%} {_SKIPPED.unit}: {_SKIPPED.why}",
            why="gradients were not finite in those steps",
            fix="look for NaN or Inf in the loss, or use bfloat16",
        )
