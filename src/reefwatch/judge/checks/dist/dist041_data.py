"""DIST041: data of its own."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case


def _covers(case: Case) -> tuple[Coverage, ...]:
    told = case.value("ranks.data")
    return (Coverage("steps", told["looks"], told["steps"]),)


@check(
    "DIST041",
    Severity.WARNING,
    when=("ranks.several", "ranks.data"),
    needs=("ranks.data",),
    good=(
        Case.of(
            ranks__several=True,
            ranks__data={"looks": 9, "steps": 12, "compared": 9, "same": False, "world": 2},
        ),
    ),
    bad=(
        Case.of(
            ranks__several=True,
            ranks__data={"looks": 9, "steps": 12, "compared": 9, "same": True, "world": 2},
        ),
        Case.of(
            ranks__several=True,
            ranks__data={"looks": 3, "steps": 3, "compared": 3, "same": True, "world": 4},
        ),
    ),
    covers=_covers,
)
def data(case: Case) -> Iterator[Finding]:
    """Each rank trains on data of its own.

    The losses of the ranks, bit by bit, at steps that all of them looked at.

    Why: with the same data on every rank W cards do the work of one, at W times the cost, and the
    batch is smaller than it seems.
    Fix: give the DataLoader a `DistributedSampler`, and call its `set_epoch`; seed by rank what
    draws data.
    Source:
    https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """
    told = case.value("ranks.data")
    if told["same"]:
        yield Finding(
            f"all {told['world']} ranks had the same loss, to the last bit, in {told['compared']} "
            "of "
            f"{told['compared']} steps compared: they train on the same data",
            (Evidence("ranks.data", told, source="losses of all ranks"),),
            Place(),
            why="the ranks repeat each other's work",
            fix="use a DistributedSampler, or seed by rank",
        )
