"""LOOP013: steps see new data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case


def _case(pairs: int, repeats: int) -> Case:
    value = {"steps": 9, "pairs": pairs, "repeats": repeats, "module": "Net", "shape": [8, 3]}
    return Case.of(loop__data=value, loop__batched=True, loop__training=True)


def _covers(case: Case) -> tuple[Coverage, ...]:
    value: Any = case.value("loop.data")
    run = case.known("run.steps") or {}
    return (Coverage("steps", value["steps"], max(value["steps"], run.get("count", 0))),)


@check(
    "LOOP013",
    Severity.WARNING,
    when=("loop.training", "loop.batched"),
    needs=("loop.data",),
    good=(_case(8, 0), _case(8, 4)),
    bad=(_case(8, 8), _case(2, 2)),
    covers=_covers,
)
def new_data(case: Case) -> Iterator[Finding]:
    """Steps see new data.

    In all neighbouring steps that were compared, three steps or more, the model was called with the
    same bits.

    Why: the model learns one batch by heart.
    Fix: take the batch inside the loop. Full-batch training, and the test that a model can
    learn one batch by heart, are meant: silence this code there. An optimizer with a closure
    (LBFGS) makes no such claim.
    Source: https://karpathy.github.io/2019/04/25/recipe/ (overfit one batch, as a test)
    """
    value = case.value("loop.data")
    if value["repeats"] == value["pairs"]:
        shape = "x".join(map(str, value["shape"]))
        yield Finding(
            f"{value['module']} was called with the same input of shape {shape} in all "
            f"{value['steps']} examined steps",
            (Evidence("loop.data", value["repeats"], "repeats", "bits of the inputs"),),
            Place(value["module"]),
            why="the model sees one batch only",
            fix="take the batch inside the loop; silence this code when it is the whole data",
        )
