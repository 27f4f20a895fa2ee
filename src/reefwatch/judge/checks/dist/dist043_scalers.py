"""DIST043: one scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case


def _one(rank: int, skipped: int, scale: float) -> dict[str, Any]:
    return {"rank": rank, "steps": 9, "skipped": skipped, "scale": scale}


@check(
    "DIST043",
    Severity.ERROR,
    when=("ranks.several", "ranks.scalers"),
    needs=("ranks.scalers",),
    good=(
        Case.of(
            ranks__several=True,
            ranks__scalers={"ranks": [_one(0, 1, 32768.0), _one(1, 1, 32768.0)]},
        ),
    ),
    bad=(
        Case.of(
            ranks__several=True,
            ranks__scalers={"ranks": [_one(0, 1, 32768.0), _one(1, 2, 16384.0)]},
        ),
        Case.of(
            ranks__several=True,
            ranks__scalers={"ranks": [_one(0, 0, 65536.0), _one(1, 1, 65536.0)]},
        ),
    ),
)
def scalers(case: Case) -> Iterator[Finding]:
    """GradScalers agree on scale and skipped updates.

    Steps, skipped steps and scale of each rank's GradScaler.

    Why: a rank that skips an update alone has other weights from then on; ranks with different
    scales average gradients of different sizes.
    Fix: unscale after the gradients were reduced; with sharded gradients use FSDP's own
    `ShardedGradScaler`.
    Source: https://github.com/pytorch/pytorch/issues/136009
    """
    told = case.value("ranks.scalers")
    rows = told["ranks"]
    if len({(row["steps"], row["skipped"], row["scale"]) for row in rows}) < 2:
        return
    each = "; ".join(
        f"rank {row['rank']}: {row['skipped']} of {row['steps']} skipped, scale {row['scale']}"
        for row in rows[:8]
    )
    yield Finding(
        f"the GradScalers of the ranks have parted: {each}",
        (Evidence("ranks.scalers", told, source="GradScaler of each rank"),),
        Place(),
        why="a rank that skips an update alone has other weights from then on",
        fix="unscale reduced gradients; with FSDP use ShardedGradScaler",
    )
