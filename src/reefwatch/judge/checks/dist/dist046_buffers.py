"""DIST046: buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case


def _told(*names: str) -> dict[str, Any]:
    differ = [{"name": n, "step": 0, "ranks": [0, 1], "sure": False} for n in names]
    return {"looks": 9, "steps": 12, "tensors": 2, "count": len(names), "differ": differ}


def _covers(case: Case) -> tuple[Coverage, ...]:
    told = case.value("ranks.buffers")
    return (Coverage("steps", told["looks"], told["steps"]),)


@check(
    "DIST046",
    Severity.WARNING,
    when=("ranks.several", "ranks.buffers"),
    needs=("ranks.buffers",),
    good=(Case.of(ranks__several=True, ranks__buffers=_told()),),
    bad=(
        Case.of(ranks__several=True, ranks__buffers=_told("buffer bn.running_mean")),
        Case.of(
            ranks__several=True,
            ranks__buffers=_told("buffer bn.running_mean", "buffer bn.running_var"),
        ),
    ),
    covers=_covers,
)
def buffers(case: Case) -> Iterator[Finding]:
    """Buffers that nobody sends are the same on every rank.

    With `broadcast_buffers=True` DDP sends rank 0's buffers to all before each forward, and they
    are expected to differ in between; nothing is said of those. Without it each rank keeps
    statistics of its own data.

    Why: an evaluation or a checkpoint uses those of one rank, and the others are lost.
    Fix: leave `broadcast_buffers` on, or use `SyncBatchNorm`.
    Source:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """
    told = case.value("ranks.buffers")
    rows = told["differ"]
    if rows:
        names = ", ".join(row["name"].removeprefix("buffer ") for row in rows[:3])
        yield Finding(
            f"{told['count']} of {told['tensors']} buffers are not the same on all ranks since "
            "step "
            f"{rows[0]['step']}: {names}",
            (Evidence("ranks.buffers", told, source="checksums of all ranks"),),
            Place(module=names, step=rows[0]["step"]),
            why="a checkpoint holds the statistics of one rank's data alone",
            fix="leave broadcast_buffers on, or use SyncBatchNorm",
        )
