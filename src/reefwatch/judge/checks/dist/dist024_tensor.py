"""DIST024: tensor parallel and DTensor."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "tensor")


def _what(row: Row) -> str:
    return f"{row['form']} gives other values than one process"


def _row(state: str = "right", why: str = "") -> Event:
    return row(
        state, phase="tensor", form="redistribution", name="redistribution", dtype="", why=why
    )


@check(
    "DIST024",
    Severity.ERROR,
    when=("dist.tensor",),
    needs=("dist.tensor",),
    good=(case("tensor", _row()),),
    bad=(case("tensor", _row("wrong", "Shard(0) to Shard(1)")), case("tensor", _row("wrong"))),
    covers=covers(_wanted, "kinds"),
    doubt=doubt(_wanted),
)
def tensor(case: Case) -> Iterator[Finding]:
    """Tensor parallel layers and DTensor give the values of one process.

    Column and row parallel layers in fp64 against the same layers in one process, and every
    redistribution of an uneven tensor and of a partial sum.

    Why: a wrong redistribution is a wrong activation, in silence.
    Fix: update torch.
    Source: https://github.com/pytorch/pytorch/issues/130251
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "a wrong activation in silence",
        "update torch",
    )
