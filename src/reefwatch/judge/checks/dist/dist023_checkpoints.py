"""DIST023: checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "checkpoints")


def _what(row: Row) -> str:
    return f"a checkpoint ({row['form']}) does not come back as it was"


def _row(state: str = "right", why: str = "") -> Event:
    return row(
        state,
        phase="checkpoints",
        form="full and sharded",
        name="full and sharded",
        dtype="",
        why=why,
    )


@check(
    "DIST023",
    Severity.ERROR,
    when=("dist.checkpoints",),
    needs=("dist.checkpoints",),
    good=(case("checkpoints", _row()),),
    bad=(
        case("checkpoints", _row("wrong", "the sharded checkpoint differs in head.weight")),
        case("checkpoints", _row("wrong")),
    ),
    covers=covers(_wanted, "kinds of checkpoint"),
    doubt=doubt(_wanted),
)
def checkpoints(case: Case) -> Iterator[Finding]:
    """Checkpoints come back as they were saved, also on fewer ranks.

    A sharded model and its optimizer after an update: the full state dict, a sharded checkpoint
    saved and loaded, and the same loaded by fewer ranks; every element must have the same bits.

    Why: a run that resumes from it goes on from other weights.
    Fix: update torch; save with `torch.distributed.checkpoint`.
    Source: https://github.com/pytorch/pytorch/issues/100041
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "what resumes from it goes on from other weights",
        "update torch",
    )
