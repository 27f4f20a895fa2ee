"""LOOP004: used parameters get gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event


def _param(name: str, problem: str) -> Event:
    data = {"name": name, "problem": problem, "elements": 640, "file": "/train.py", "line": 12}
    return Event("loop.param", data, id=name)


def _covers(case: Case) -> tuple[Coverage, ...]:
    value = case.value("loop.params")
    of = value["trainable"]
    compared = Coverage("parameters", value.get("compared", of), of)
    return (Coverage("updates", value["updates_watched"], value["updates"]), compared)


_FACTS: dict[str, Any] = {
    "loop__training": True,
    "loop__params": {"trainable": 4, "in_optimizer": 4, "updates_watched": 4, "updates": 9},
}


@check(
    "LOOP004",
    Severity.WARNING,
    when=("loop.training",),
    needs=("loop.params",),
    good=(Case.of(**_FACTS), Case.of(_param("fc.bias", "not changing"), **_FACTS)),
    bad=(Case.of(_param("fc.weight", "no gradient"), **_FACTS),),
    covers=_covers,
)
def gets_gradient(case: Case) -> Iterator[Finding]:
    """A gradient reaches each used parameter that an optimizer holds.

    The forward pass used the parameter with gradients enabled, an optimizer holds it, and no
    backward ever gave it a gradient: something between it and the loss cuts the graph
    (`detach()`, `.data`, `.item()`, a conversion to numpy, argmax). A layer that is never used is
    not counted.

    Why: everything before the cut keeps its initial values.
    Fix: remove the cut, or freeze what lies before it with `requires_grad_(False)`. Codebooks that
    are updated by averages instead of gradients are meant; freeze them or silence this code.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html
    """
    rows = [r.data for r in case.rows("loop.param") if r.data["problem"] == "no gradient"]
    if not rows:
        return
    names = ", ".join(data["name"] for data in rows[:3]) + (", ..." if len(rows) > 3 else "")
    last = rows[-1]
    yield Finding(
        f"{len(rows)} parameters are used and never get a gradient: {names}",
        (Evidence("loop.param", len(rows), "parameters", "p.grad after each backward"),),
        Place(module=last["name"], file=last["file"], line=last["line"]),
        why="the graph is cut between them and the loss",
        fix="look for detach(), .data, .item() or argmax after the last of them",
        names=tuple(data["name"] for data in rows),
    )
