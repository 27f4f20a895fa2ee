"""DIST047: ranks of one launch train together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case


def _told(*steps: int) -> dict[str, Any]:
    rows = [{"rank": rank, "steps": number} for rank, number in enumerate(steps)]
    return {"world": len(steps), "ranks": rows}


@check(
    "DIST047",
    Severity.WARNING,
    when=("ranks.apart",),
    needs=("ranks.apart", "ranks.several"),
    good=(Case.of(ranks__several=True, ranks__apart=_told(9, 9)),),
    bad=(
        Case.of(ranks__several=False, ranks__apart=_told(9, 9)),
        Case.of(ranks__several=False, ranks__apart=_told(9, 9, 3, 9)),
    ),
)
def apart(case: Case) -> Iterator[Finding]:
    """Ranks that were launched together train together.

    Several ranks of one launch made updates, and none of them had a process group of several: each
    trained a model of its own. A launch that is meant so (a sweep) can silence this.

    Why: the loss of every rank looks healthy, and W cards give what one gives.
    Fix: call `init_process_group` with the launch's world size before the model is wrapped; check
    that RANK and WORLD_SIZE reach it.
    Source: https://docs.pytorch.org/docs/stable/elastic/run.html (what torchrun sets, and that the
    program itself makes the group)
    """
    told = case.value("ranks.apart")
    if case.value("ranks.several"):
        return
    ranks = [int(row["rank"]) for row in told["ranks"]]
    yield Finding(
        f"{len(ranks)} ranks of a launch of {told['world']} trained, each for itself: no process "
        "group of several was seen",
        (Evidence("ranks.apart", told, source="the records of all ranks together"),),
        Place(ranks=tuple(ranks)),
        why="no gradient went from one rank to another",
        fix="call init_process_group with the size of the launch, or silence this for a sweep",
    )
