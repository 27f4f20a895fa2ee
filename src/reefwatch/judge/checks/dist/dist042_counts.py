"""DIST042: the same number of collectives."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case


def _issued(*numbers: int) -> list[dict[str, int]]:
    return [{"rank": rank, "number": number} for rank, number in enumerate(numbers)]


def _covers(case: Case) -> tuple[Coverage, ...]:
    told = case.value("ranks.counts")
    return (Coverage("steps", told["looks"], told["steps"]),)


@check(
    "DIST042",
    Severity.WARNING,
    when=("ranks.several",),
    needs=("ranks.counts",),
    good=(Case.of(ranks__several=True, ranks__counts={"looks": 9, "steps": 12, "differ": []}),),
    bad=(
        Case.of(
            ranks__several=True,
            ranks__counts={
                "looks": 9,
                "steps": 12,
                "differ": [{"step": 1, "issued": _issued(8, 9), "ranks": [0, 1]}],
            },
        ),
        Case.of(
            ranks__several=True,
            ranks__counts={
                "looks": 2,
                "steps": 2,
                "differ": [{"step": 0, "issued": _issued(8, 9, 9), "ranks": [0]}],
            },
        ),
    ),
    covers=_covers,
)
def counts(case: Case) -> Iterator[Finding]:
    """Every rank takes part in each collective.

    The backend's own numbers of the collectives in the default group, at steps that all ranks
    looked at.

    Why: a rank that skips a synchronisation goes on with other weights, and the job hangs later,
    in another place.
    Fix: enter `no_sync` and every branch around a collective on all ranks or on none.
    Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html; messages between two ranks
    are counted too, so a pipeline schedule may differ by intent
    """
    told = case.value("ranks.counts")
    for row in told["differ"]:
        each = ", ".join(f"rank {one['rank']} {one['number']}" for one in row["issued"][:8])
        yield Finding(
            f"by step {row['step']} the ranks have issued different numbers of collectives: {each}",
            (Evidence("ranks.counts", told, source="the backend's sequence numbers"),),
            Place(step=row["step"]),
            why="from then on each rank waits for another collective than it thinks",
            fix="enter no_sync and branches around collectives on all ranks alike",
        )
