"""DIST003: strided tensors."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return row["phase"] == "matrix" and "layout" in row


def _what(row: Row) -> str:
    return f"{row['form']} of strided tensors is wrong, in silence"


@check(
    "DIST003",
    Severity.ERROR,
    when=("dist.matrix",),
    needs=("dist.matrix",),
    good=(
        case(
            "matrix",
            row(layout="strided"),
            row("unsupported", layout="strided", name="b", detail="Tensors must be contiguous"),
        ),
    ),
    bad=(
        case("matrix", row("wrong", form="all_reduce", layout="strided")),
        case(
            "matrix",
            row(
                "wrong",
                form="scatter",
                layout="strided",
                outside="4 elements outside of the output, at 1 to 7 from its begin",
            ),
        ),
    ),
    covers=covers(_wanted, "strided cases"),
    doubt=doubt(_wanted),
)
def strided(case: Case) -> Iterator[Finding]:
    """Tensors that are not contiguous come out right or are refused.

    Each form is also run on every second element of a larger buffer, whose other elements are
    guards.

    Why: gloo takes the first elements in memory as if the tensor were contiguous: other elements
    are sent or written over, and no error is raised.
    Fix: call `.contiguous()` before the collective and copy the result back.
    Source: https://github.com/pytorch/pytorch/issues/192920
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "the backend takes the memory as if it were contiguous",
        "call .contiguous() first and copy the result back",
        reasons=False,
    )
