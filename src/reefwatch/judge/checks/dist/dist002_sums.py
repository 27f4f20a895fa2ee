"""DIST002: sums over ranks."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return (
        row["phase"] == "matrix"
        and (bool(row.get("op")) or row["form"] == "all_reduce_coalesced")
        and "layout" not in row
    )


def _what(row: Row) -> str:
    return f"{row['form']} {row.get('op', '')}".strip() + " gives wrong results"


@check(
    "DIST002",
    Severity.ERROR,
    when=("dist.matrix",),
    needs=("dist.matrix",),
    good=(case("matrix", row(form="all_reduce", op="SUM")),),
    bad=(
        case("matrix", row("wrong", form="all_reduce", op="SUM", why="rank 1 is missing in it")),
        case("matrix", row("wrong", form="reduce", op="MAX")),
    ),
    covers=covers(_wanted, "reducing cases"),
    doubt=doubt(_wanted),
)
def sums(case: Case) -> Iterator[Finding]:
    """Reductions over ranks are exact.

    The addends are integers so small that each partial sum has a place in the dtype: the result
    must have the same bits in any order. Only AVG over a number of ranks that is no power of two
    may be off, by the rounding of 1/W. A wrong result is matched against a rank that is missing,
    counted twice, scaled, or not reduced at all.

    Why: gradients are summed this way; a wrong sum is a wrong step on every rank.
    Fix: update the library (RCCL, NCCL) or torch.
    Source: Higham, Accuracy and Stability of Numerical Algorithms, 4.2 (sums of integers are exact
    while they fit)
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "gradients are summed this way",
        "update the backend's library, or avoid this operation",
    )
