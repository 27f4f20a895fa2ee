"""DIST005: calls that do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "mismatch")


def _what(row: Row) -> str:
    return f"ranks that differ in {row['form']} are not told so"


def _row(state: str = "right", why: str = "") -> Event:
    return row(state, phase="mismatch", form="dtype", name="dtype", dtype="", why=why)


@check(
    "DIST005",
    Severity.ERROR,
    when=("dist.mismatch",),
    needs=("dist.mismatch",),
    good=(case("mismatch", _row()),),
    bad=(case("mismatch", _row("wrong", "accepted in silence")), case("mismatch", _row("wrong"))),
    covers=covers(_wanted, "kinds of mismatch"),
    doubt=doubt(_wanted),
)
def mismatch(case: Case) -> Iterator[Finding]:
    """Calls that do not fit together are refused.

    Rank 0 calls with another dtype, operation, shape or order than the others, in a group of its
    own. An error on any rank, also after a time-out, counts as refused.

    Why: a result that is wrong on each rank comes back at once, and nothing is raised.
    Fix: `reefwatch run --strict=dist` agrees each call's signature first;
    `TORCH_DISTRIBUTED_DEBUG=DETAIL` compares shapes and dtypes, and not the operation.
    Source: torch's `ProcessGroupWrapper`, whose fingerprint has no reduce op
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "each rank goes on with another wrong result",
        "reefwatch run --strict=dist while the script is new",
    )
