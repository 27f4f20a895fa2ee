"""DIST020: gradients under DDP."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "ddp" and "beyond" not in row["name"])


def _what(row: Row) -> str:
    return f"gradients under {row['form']} are not the mean over ranks"


def _row(state: str = "right", why: str = "") -> Event:
    return row(state, phase="ddp", form="DDP", name="DDP", dtype="", why=why)


@check(
    "DIST020",
    Severity.ERROR,
    when=("dist.ddp",),
    needs=("dist.ddp",),
    good=(case("ddp", _row()),),
    bad=(case("ddp", _row("wrong", "rank 1 is missing in it")), case("ddp", _row("wrong"))),
    covers=covers(_wanted, "wrappers"),
    doubt=doubt(_wanted),
)
def ddp(case: Case) -> Iterator[Finding]:
    """DDP gives every rank the exact mean of the gradients.

    The modules have prescribed gradients, hashes of rank, step, parameter and index, whatever the
    kernels do; several buckets, steps and micro-batches. What is wrong is matched against a rank
    that is missing, counted twice or not reduced, the step before, a sum without its division, a
    micro-batch that was not synchronised.

    Why: training goes on with a wrong step, and the loss may even fall.
    Fix: update torch or the backend's library; without a comm hook first. A hook that sends fp16
    needs gradients within 65504.
    Source: Li et al., PyTorch Distributed, VLDB 2020 (what DDP promises)
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "each update is then wrong, on all ranks alike",
        "try without comm hook and with another backend",
    )
