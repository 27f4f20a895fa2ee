"""DIST022: parallel training."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "training")


def _what(row: Row) -> str:
    return f"training under {row['form']} leaves the one of one process"


def _row(state: str = "right", why: str = "") -> Event:
    return row(state, phase="training", form="DDP", name="DDP", dtype="", why=why)


@check(
    "DIST022",
    Severity.ERROR,
    when=("dist.training",),
    needs=("dist.training",),
    good=(case("training", _row()),),
    bad=(
        case("training", _row("wrong", "first seen in the loss of update 0")),
        case("training", _row("wrong")),
    ),
    covers=covers(_wanted, "kinds of training"),
    doubt=doubt(_wanted),
)
def training(case: Case) -> Iterator[Finding]:
    """Training in parallel equals training in one process.

    A small network in fp64 with AdamW, some updates: losses, norms and weights against the same
    updates in one process, where only rounding of 1e-16 may differ; the limit of 1e-9 leaves six
    orders of room.

    Why: in the user's precision a fault hides below the rounding.
    Fix: look at DIST020 and DIST021, which name the gradient that is wrong.
    Source: https://github.com/pytorch/pytorch/issues/187276 (two backends, other gradients)
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "in fp64 rounding cannot explain it",
        "look at DIST020 and DIST021",
    )
