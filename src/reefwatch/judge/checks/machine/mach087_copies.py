"""MACH087: copies between cards."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP, case, covers, doubt, findings, row


@check(
    "MACH087",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.copies",),
    good=(case("copies", row()),),
    bad=(
        case("copies", row("wrong", "cuda:0 to cuda:1: NaN")),
        case("copies", row(), row("crash", "killed by SIGSEGV", "cuda:1")),
        case("copies", row("hang", "no answer in 60 s")),
    ),
    covers=covers("copies"),
    doubt=doubt("copies"),
)
def copies(case: Case) -> Iterator[Finding]:
    """What is copied between two cards arrives.

    Runs in a child process with a time limit, so that a crash or a hang of the driver is told here
    and ends nothing else.

    Why: with the IOMMU translating, or behind a chipset, copies between cards gave NaN or hung.
    Fix: see MACH043 and MACH042; NCCL_P2P_DISABLE=1 meanwhile.
    Source: PyTorch reports of copies between Radeons (public).
    """
    yield from findings(
        case,
        "copies",
        "a copy between cards",
        "multi-GPU work",
        "reefwatch explain MACH043; meanwhile export NCCL_P2P_DISABLE=1",
    )
