"""LOOP008: backward outside autocast."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case


def _case(inside: int) -> Case:
    value = {"calls": 9, "in_autocast": inside, "file": "/train.py", "line": 30}
    return Case.of(loop__backward=value, loop__training=True)


def _covers(case: Case) -> tuple[Coverage, ...]:
    calls = case.value("loop.backward")["calls"]
    return (Coverage("backward calls", calls, calls),)


@check(
    "LOOP008",
    Severity.WARNING,
    when=("loop.training",),
    needs=("loop.backward",),
    good=(_case(0),),
    bad=(_case(9), _case(1)),
    covers=_covers,
)
def autocast_left(case: Case) -> Iterator[Finding]:
    """Autocast is left before backward.

    `backward` was called inside a `torch.autocast` region. Backward ops run in the dtype that
    autocast chose for their forward op; the region adds casts of its own to what runs in
    hooks, custom functions and recomputed parts.

    Why: PyTorch does not recommend it, and gradients may be computed in another dtype than meant.
    Fix: end the `with torch.autocast(...)` block after the loss, before `loss.backward()`.
    Source: https://docs.pytorch.org/docs/stable/amp.html#autocasting
    """
    value = case.value("loop.backward")
    if value["in_autocast"]:
        yield Finding(
            f"{value['in_autocast']} of {value['calls']} backward calls ran inside autocast",
            (Evidence("loop.backward", value["in_autocast"], "calls", "autocast state"),),
            Place(file=value["file"], line=value["line"]),
            why="PyTorch does not recommend it",
            fix="end the autocast block before loss.backward()",
        )
