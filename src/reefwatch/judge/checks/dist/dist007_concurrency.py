"""DIST007: several at once."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "concurrency")


def _what(row: Row) -> str:
    return f"collectives of {row['form']} give wrong results"


def _row(state: str = "right", why: str = "") -> Event:
    return row(
        state,
        phase="concurrency",
        form="two groups at once",
        name="two groups at once",
        dtype="",
        why=why,
    )


@check(
    "DIST007",
    Severity.ERROR,
    when=("dist.concurrency",),
    needs=("dist.concurrency",),
    good=(case("concurrency", _row()),),
    bad=(case("concurrency", _row("wrong", "first call")), case("concurrency", _row("wrong"))),
    covers=covers(_wanted, "kinds"),
    doubt=doubt(_wanted),
)
def concurrency(case: Case) -> Iterator[Finding]:
    """Collectives of several groups at once are right.

    Two groups in flight together and groups that are made anew, each with several rounds; on a GPU
    also two streams, and a captured graph.

    Why: tensor, context and data parallel collectives of one step run at the same time, and a
    communicator's first call may read what its start has not finished.
    Fix: update the backend's library or torch.
    Source: https://github.com/pytorch/torchtitan/issues/4064,
    https://github.com/ROCm/legacy-rocm-build/issues/6565
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "one step of mixed parallelism does this many times",
        "update the backend's library or torch",
    )
