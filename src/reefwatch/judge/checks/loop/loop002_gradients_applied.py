"""LOOP002: gradients reach the update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event

_DROPPED = Tolerance(
    0.5, "share of the watched cycles", "a loop may drop a bad gradient and step on purpose"
)


def _cycle(dropped: int) -> Event:
    data = {"optimizer": "SGD", "cycles": 9, "dropped": dropped, "file": "/train.py", "line": 30}
    return Event("loop.cycle", data, id="0")


def _covers(case: Case) -> tuple[Coverage, ...]:
    cycles = case.value("loop.cycles")
    params, of = cycles.get("params", 1), cycles.get("params_of", 1)
    sampled = (Coverage("parameters", params, of),) if params < of else ()
    return (Coverage("update cycles", cycles["watched"], cycles["of"]), *sampled)


_FACTS: dict[str, Any] = {"loop__training": True, "loop__cycles": {"watched": 9, "of": 9}}


@check(
    "LOOP002",
    Severity.ERROR,
    when=("loop.training",),
    needs=("loop.cycles",),
    good=(Case.of(_cycle(0), **_FACTS), Case.of(_cycle(2), **_FACTS)),
    bad=(Case.of(_cycle(9), **_FACTS),),
    covers=_covers,
)
def gradients_applied(case: Case) -> Iterator[Finding]:
    """Gradients of the last backward before an update reach it.

    Between the last backward and the optimizer's step every gradient was cleared, so the step had
    nothing (None) or only zeros to apply. Clearing those of a few parameters is fine (a layer kept
    still for the first epoch): only cycles that lose all of them count. Gradients cleared between
    two backwards of one cycle are not judged: a GAN clears its generator's on purpose.

    Why: the model does not learn; momentum and weight decay may still move it.
    Fix: call `zero_grad()` before `backward` or after `step`, never between them.
    Source: https://docs.pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html
    """
    for row in case.rows("loop.cycle"):
        data = row.data
        if data["cycles"] and _DROPPED.exceeded_by(data["dropped"] / data["cycles"]):
            yield Finding(
                f"all gradients were cleared between backward and step in {data['dropped']} of "
                f"{data['cycles']} update cycles of {data['optimizer']}",
                (Evidence("loop.cycle", data["dropped"], "cycles", "p.grad at each update"),),
                Place(file=data["file"], line=data["line"]),
                why="the step has no gradients to apply",
                fix="call zero_grad() before backward or after step",
            )
