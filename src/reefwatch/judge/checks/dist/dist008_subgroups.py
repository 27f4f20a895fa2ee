"""DIST008: groups of some ranks."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "subgroups")


def _what(row: Row) -> str:
    return f"{row['form']} in a group of some ranks gives wrong results"


@check(
    "DIST008",
    Severity.ERROR,
    when=("dist.subgroups",),
    needs=("dist.subgroups",),
    good=(case("subgroups", row(phase="subgroups")),),
    bad=(case("subgroups", row("wrong", phase="subgroups", why="holds what rank 3 sent")),),
    covers=covers(_wanted, "cases in groups"),
    doubt=doubt(_wanted),
)
def subgroups(case: Case) -> Iterator[Finding]:
    """Collectives among some of the ranks are right.

    The forms are run in two groups at the same time, one of them with its ranks in reversed order.

    Why: tensor, pipeline and hybrid sharding run in such groups; a rank of the group is not the
    rank of the job.
    Fix: update the backend's library or torch.
    Source: https://docs.pytorch.org/docs/stable/distributed.html#groups
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "tensor parallel and hybrid sharding use such groups",
        "update the backend's library or torch",
    )
