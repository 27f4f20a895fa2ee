"""DIST021: gradients and parameters under FSDP."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "fsdp")


def _what(row: Row) -> str:
    return f"{row['form']} does not give the exact parameters and gradients"


def _row(state: str = "right", why: str = "") -> Event:
    return row(state, phase="fsdp", form="FSDP2", name="FSDP2", dtype="", why=why)


@check(
    "DIST021",
    Severity.ERROR,
    when=("dist.fsdp",),
    needs=("dist.fsdp",),
    good=(case("fsdp", _row()),),
    bad=(
        case("fsdp", _row("wrong", "the gathered parameter is wrong in the shard of rank 1")),
        case("fsdp", _row("wrong")),
    ),
    covers=covers(_wanted, "wrappers"),
    doubt=doubt(_wanted),
)
def fsdp(case: Case) -> Iterator[Finding]:
    """FSDP gathers the exact parameters and reduces the exact gradients.

    As DIST020; FSDP2's gathered parameters are compared in each unit's forward too, and a wrong
    one is told by the rank whose shard it is.

    Why: a shard that is lost or swapped is trained on in silence.
    Fix: update torch or the backend's library; `reshard_after_forward=False` and no offload tell
    which part it is.
    Source: https://github.com/instructlab/training/issues/414 (FSDP1, offload and accumulation)
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "each update is then wrong",
        "try without offload, and another backend",
    )
