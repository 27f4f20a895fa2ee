"""LOOP001: gradients are cleared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event

_TOLD = 8
"""So many parameters are in the record at most; there may be others."""


def _cycle(**parts: Any) -> Event:
    data = {
        "optimizer": "SGD",
        "cycles": 9,
        "uncleared": 0,
        "stale": 0,
        "dropped": 0,
        "params": [],
        "file": "/train.py",
        "line": 30,
    }
    return Event("loop.cycle", {**data, **parts}, id="0")


def _covers(case: Case) -> tuple[Coverage, ...]:
    cycles = case.value("loop.cycles")
    covers = [Coverage("update cycles", cycles["watched"], cycles["of"])]
    params, of = cycles.get("params", 1), cycles.get("params_of", 1)
    if params < of:  # in steps that are not examined a few stand for all
        covers.append(Coverage("parameters", params, of))
    threads = case.known("watch.threads", {"watched": 1, "training": 1})
    if threads["training"] > threads["watched"]:
        covers.append(Coverage("training threads", threads["watched"], threads["training"]))
    return tuple(covers)


@check(
    "LOOP001",
    Severity.ERROR,
    when=("loop.training",),
    needs=("loop.cycles",),
    good=(Case.of(_cycle(), loop__training=True, loop__cycles={"watched": 9, "of": 9}),),
    bad=(
        Case.of(
            _cycle(uncleared=9, params=["fc1.weight"]),
            loop__training=True,
            loop__cycles={"watched": 9, "of": 9},
        ),
        Case.of(
            _cycle(uncleared=1, stale=1, params=["fc1.weight"]),
            loop__training=True,
            loop__cycles={"watched": 1, "of": 900},
        ),
    ),
    covers=_covers,
)
def gradients_cleared(case: Case) -> Iterator[Finding]:
    """Gradients are cleared between two updates.

    PyTorch adds every backward onto `p.grad`. What an update has applied must be gone before the
    backward of the next one, or each step repeats all earlier ones with a growing sum.

    Why: training goes on and the loss may even fall, with a step size and direction nobody chose.
    Fix: call `optimizer.zero_grad()` once per update, before `backward` or after `step`. With
    several optimizers each one's parameters need it. Gradient accumulation is fine: it clears
    once per update too. A decay of gradients by hand (`p.grad.mul_(0.9)`) is meant; silence this
    code there.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    """
    for row in case.rows("loop.cycle"):
        data = row.data
        if not data["uncleared"]:
            continue
        names = ", ".join(data["params"][:3]) + (", ..." if len(data["params"]) > 3 else "")
        which = f" of {names}" if names else ""
        stale = " (applied again as they were)" if data["stale"] == data["uncleared"] else ""
        yield Finding(
            f"gradients{which} were not cleared{stale} in {data['uncleared']} of {data['cycles']} "
            f"update cycles of {data['optimizer']}",
            (Evidence("loop.cycle", data["uncleared"], "cycles", "p.grad at each update"),),
            Place(module=names, file=data["file"], line=data["line"]),
            why="each update applied the gradients of earlier ones again",
            fix="call optimizer.zero_grad() once per update",
            names=(*data["params"], *(("...",) if len(data["params"]) >= _TOLD else ())),
        )
