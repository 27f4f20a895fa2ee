"""DIST001: what moves."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return (
        row["phase"] == "matrix"
        and not row.get("op")
        and "layout" not in row
        and row["form"] not in ("all_reduce_coalesced",)
    )


def _what(row: Row) -> str:
    return f"{row['form']} brings wrong elements"


@check(
    "DIST001",
    Severity.ERROR,
    when=("dist.matrix",),
    needs=("dist.matrix",),
    good=(case("matrix", row()),),
    bad=(
        case("matrix", row("wrong", why="holds what rank 1 sent")),
        case("matrix", row("wrong", form="scatter", name="scatter bool", dtype="bool")),
    ),
    covers=covers(_wanted, "moving cases"),
    doubt=doubt(_wanted),
)
def moves(case: Case) -> Iterator[Finding]:
    """Collectives that move data bring each rank the right elements.

    Every element is a hash of the case, the source rank, the slot and the index, and the result
    must have the same bits; what is wrong is matched against the blocks of all ranks. Objects and
    barriers are among them.

    Why: a wrong block trains on, without an error; constant data would not show it.
    Fix: update the library (RCCL, NCCL) or torch; `NCCL_PROTO`, `NCCL_ALGO` and `NCCL_P2P_DISABLE`
    tell which path is at fault.
    Source: https://github.com/ROCm/legacy-rocm-build/issues/6565 (all_gather and reduce_scatter
    wrong, all_reduce right)
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "training and inference over several ranks use this without any check",
        "update the backend's library, or avoid this collective",
    )
