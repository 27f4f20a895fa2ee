"""DIST011: the ranks are alike."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case
from reefwatch.judge.dist_mapping import unlike

_ONE = {
    "rank": 0,
    "host": "a",
    "torch": "2.13.0",
    "library": "2.27.7",
    "python": "3.12",
    "card": None,
}


@check(
    "DIST011",
    Severity.WARNING,
    needs=("dist.ranks",),
    good=(Case.of(dist__ranks=[_ONE, {**_ONE, "rank": 1}]),),
    bad=(Case.of(dist__ranks=[_ONE, {**_ONE, "rank": 1, "torch": "2.12.0"}]),),
)
def alike(case: Case) -> Iterator[Finding]:
    """The ranks have the same versions, cards and settings of the transport.

    Why: libraries of two versions, or two architectures in one ring, are what nobody tests; some
    abort at the first call.
    Fix: one image on all hosts; cards of one kind in one job.
    Source: https://github.com/ROCm/rccl/issues/2189 (gfx1200 and gfx1201)
    """
    ranks = case.value("dist.ranks")
    for words, some in unlike(ranks):
        yield Finding(
            words,
            (Evidence("dist.ranks", [dict(row) for row in ranks], source="each rank"),),
            Place(ranks=tuple(map(int, some))),
            why="libraries are tested with the same on all ranks",
            fix="use one image and one kind of card",
        )
