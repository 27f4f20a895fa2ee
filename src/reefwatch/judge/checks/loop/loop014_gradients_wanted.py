"""LOOP014: gradients are made for what is trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event


def _param(held: bool, problem: str = "not in optimizer") -> Event:
    data = {
        "name": "fc.weight",
        "problem": problem,
        "root": "Features",
        "root_in_optimizer": held,
        "elements": 640,
        "file": "/train.py",
        "line": 12,
    }
    return Event("loop.param", data, id="0")


def _covers(case: Case) -> tuple[Coverage, ...]:
    value = case.value("loop.params")
    return (Coverage("updates", value["updates_watched"], value["updates"]),)


_FACTS: dict[str, Any] = {
    "loop__training": True,
    "loop__params": {"trainable": 4, "in_optimizer": 3, "updates_watched": 4, "updates": 9},
}


@check(
    "LOOP014",
    Severity.WARNING,
    when=("loop.training",),
    needs=("loop.params",),
    good=(Case.of(**_FACTS), Case.of(_param(True), **_FACTS)),
    bad=(Case.of(_param(False), **_FACTS),),
    covers=_covers,
)
def gradients_wanted(case: Case) -> Iterator[Finding]:
    """No gradients are made for modules that nothing trains.

    Parameters of a module get gradients, none of the module's is in an optimizer, and they do not
    change. Either it should be trained (a loss with weights of its own, a model that was replaced
    after its optimizer was built), or its gradients are work and memory for nothing (features of a
    fixed network).

    Why: it keeps its initial values, or the step pays for gradients that nobody reads.
    Fix: give its parameters to the optimizer, or freeze it with `requires_grad_(False)`.
    Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad
    """
    by_root: dict[str, list[Any]] = {}
    for row in case.rows("loop.param"):
        if row.data["problem"] == "not in optimizer" and not row.data["root_in_optimizer"]:
            by_root.setdefault(row.data["root"] or row.data["name"], []).append(row.data)
    for root, rows in by_root.items():
        elements = sum(data["elements"] for data in rows)
        yield Finding(
            f"{root}: {len(rows)} parameters ({elements} elements) get gradients and no optimizer "
            "holds any of them",
            (Evidence("loop.param", len(rows), "parameters", "optimizers and p.grad"),),
            Place(root, file=rows[0]["file"], line=rows[0]["line"]),
            why="they keep their initial values",
            fix="give them to the optimizer, or freeze them with requires_grad_(False)",
        )
