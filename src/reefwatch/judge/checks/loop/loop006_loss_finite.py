"""LOOP006: the loss is finite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event


def _row(**parts: Any) -> Event:
    data = {
        "where": "loss",
        "kind": "nan",
        "number": 7,
        "at": ["/train.py", 30],
        "dtype": "float32",
        "source": "not seen",
    }
    return Event("loop.nonfinite", {**data, **parts}, id="7")


def _covers(case: Case) -> tuple[Coverage, ...]:
    value = case.value("loop.losses")
    return (Coverage("losses", value["seen"], value["backwards"]),)


_FACTS: dict[str, Any] = {"loop__losses": {"seen": 9, "backwards": 9, "nonfinite": 1}}


@check(
    "LOOP006",
    Severity.ERROR,
    when=("loop.training",),
    needs=("loop.losses",),
    good=(
        Case.of(loop__training=True, **_FACTS),
        Case.of(
            _row(kind="inf", dtype="float16"),
            loop__training=True,
            loop__scaled=True,
            **_FACTS,
        ),
        Case.of(_row(where="grad"), loop__training=True, **_FACTS),
    ),
    bad=(
        Case.of(_row(), loop__training=True, **_FACTS),
        Case.of(_row(kind="inf"), loop__training=True, loop__scaled=True, **_FACTS),
    ),
    covers=_covers,
)
def loss_finite(case: Case) -> Iterator[Finding]:
    """The loss is finite in every step.

    Every value on which `backward` was called is read. A float16 loss that a GradScaler has scaled
    up to Inf is left out: the scaler skips that step and lowers its scale.

    Why: one NaN in the loss makes every gradient NaN, and after the next step every weight.
    Fix: see LOOP007 for the op that made it; common are log or sqrt of 0, a division by an
    empty count, and a learning rate that is too high.
    Source: https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html
    """
    scaled = case.known("loop.scaled", False)
    for row in case.rows("loop.nonfinite"):
        data = row.data
        if data["where"] != "loss":
            continue
        if scaled and data["kind"] == "inf" and data["dtype"] == "float16":
            continue
        total = case.value("loop.losses")
        yield Finding(
            f"the loss of backward {data['number']} is {data['kind']}; "
            f"{total['nonfinite']} of {total['seen']} losses are not finite",
            (Evidence("loop.nonfinite", data["kind"], source="the loss at backward"),),
            Place(file=data["at"][0], line=data["at"][1], step=row.step),
            why="every gradient of that step is NaN",
            fix="see LOOP007 for the op that made it",
        )
        return
