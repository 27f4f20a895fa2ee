"""LOOP003: trained parameters are in an optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event


def _param(name: str, problem: str, **parts: Any) -> Event:
    data = {
        "name": name,
        "problem": problem,
        "root": "Net",
        "root_in_optimizer": True,
        "elements": 640,
        "cause": "",
        "file": "/train.py",
        "line": 12,
    }
    return Event("loop.param", {**data, **parts}, id=name)


def _covers(case: Case) -> tuple[Coverage, ...]:
    value = case.value("loop.params")
    of = value["trainable"]
    compared = Coverage("parameters", value.get("compared", of), of)
    return (Coverage("updates", value["updates_watched"], value["updates"]), compared)


_FACTS: dict[str, Any] = {
    "loop__training": True,
    "loop__params": {"trainable": 4, "in_optimizer": 3, "updates_watched": 4, "updates": 9},
}


@check(
    "LOOP003",
    Severity.ERROR,
    when=("loop.training",),
    needs=("loop.params",),
    good=(
        Case.of(**_FACTS),
        Case.of(_param("fc.bias", "not changing"), **_FACTS),
        Case.of(_param("vgg.weight", "not in optimizer", root_in_optimizer=False), **_FACTS),
    ),
    bad=(Case.of(_param("fc.weight", "not in optimizer"), **_FACTS),),
    covers=_covers,
)
def in_optimizer(case: Case) -> Iterator[Finding]:
    """No parameter of a module with a gradient is left out of every optimizer.

    The parameter asks for gradients, gets them, and never changes, while other parameters of the
    same model are in an optimizer: a group was forgotten, or the layer was made anew (or moved in
    a way that makes new parameters) after the optimizer was built. A parameter that belongs to no
    module is not looked for.

    Why: the layer keeps its initial values and the rest learns around it.
    Fix: build the optimizer after the model is complete, from `model.parameters()`. If the layer
    is meant to stay, say `requires_grad_(False)`, which also saves its gradients.
    Source: https://docs.pytorch.org/docs/stable/optim.html#constructing-it
    """
    by_module: dict[str, list[Any]] = {}
    for row in case.rows("loop.param"):
        if row.data["problem"] == "not in optimizer" and row.data["root_in_optimizer"]:
            by_module.setdefault(row.data["name"].rpartition(".")[0], []).append(row.data)
    for module, rows in by_module.items():
        names = ", ".join(data["name"] for data in rows[:3]) + (", ..." if len(rows) > 3 else "")
        elements = sum(data["elements"] for data in rows)
        yield Finding(
            f"in no optimizer, though with gradients: {names} ({elements} elements)",
            (Evidence("loop.param", len(rows), "parameters", "optimizers and p.grad"),),
            Place(module=module or names, file=rows[0]["file"], line=rows[0]["line"]),
            why="they keep their initial values",
            fix="add them to the optimizer, or freeze them with requires_grad_(False)",
            names=() if module else tuple(data["name"] for data in rows),
        )
