"""DIST026: replay on the neighbour."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "replay")


def _what(row: Row) -> str:
    return f"{row['form']} do not give the same gradients"


def _row(state: str = "right", why: str = "") -> Event:
    return row(
        state,
        phase="replay",
        form="micro-batches of the neighbour",
        name="micro-batches of the neighbour",
        dtype="",
        why=why,
    )


@check(
    "DIST026",
    Severity.ERROR,
    when=("dist.replay",),
    needs=("dist.replay",),
    good=(case("replay", _row()),),
    bad=(case("replay", _row("wrong", "rank 1")), case("replay", _row("wrong"))),
    covers=covers(_wanted, "replays"),
    doubt=doubt(_wanted),
)
def replay(case: Case) -> Iterator[Finding]:
    """Every rank computes the same gradients from the same micro-batch.

    Each rank computes the gradients of its own micro-batch and of its neighbour's; both must have
    the same bits.

    Why: a card that computes wrongly damages the averaged gradient of all replicas alike, so
    comparing replicas shows nothing.
    Fix: `reefwatch doctor --deep` on the host that is named; take it out of the job.
    Source: AWS's ddp-sdc-detection example; Hochschild et al., Cores that don't count, HotOS 2021
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "the damage is averaged into every replica",
        "reefwatch doctor --deep on that host",
    )
