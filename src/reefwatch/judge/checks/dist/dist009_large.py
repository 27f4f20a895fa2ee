"""DIST009: more than 2^31 elements."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "large")


def _what(row: Row) -> str:
    return f"{row['form']} of more than 2^31 elements is wrong"


def _row(state: str = "right", why: str = "") -> Event:
    return row(state, phase="large", form="broadcast", name="broadcast", dtype="", why=why)


@check(
    "DIST009",
    Severity.ERROR,
    when=("dist.large",),
    needs=("dist.large",),
    good=(case("large", _row()),),
    bad=(case("large", _row("wrong", "")), case("large", _row("wrong"))),
    covers=covers(_wanted, "collectives"),
    doubt=doubt(_wanted),
)
def large(case: Case) -> Iterator[Finding]:
    """Collectives of more than 2^31 elements are right.

    2^31 + 1003 int8 elements with a pattern of prime period, checked at the begin, the middle,
    around 2^31 and at the end.

    Why: a count that wraps at 32 bits leaves a part of the data where it was.
    Fix: split the tensor; update the library.
    Source: https://github.com/open-mpi/ompi/pull/9606
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "a part of the data is not moved",
        "split the tensor",
    )
