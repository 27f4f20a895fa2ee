"""MACH086: a Triton kernel."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP, case, covers, doubt, findings, row


@check(
    "MACH086",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.triton",),
    good=(case("triton", row()),),
    bad=(
        case("triton", row("wrong", "error 1")),
        case("triton", row(), row("crash", "killed by SIGSEGV", "cuda:1")),
        case("triton", row("hang", "no answer in 60 s")),
    ),
    covers=covers("triton"),
    doubt=doubt("triton"),
)
def triton(case: Case) -> Iterator[Finding]:
    """A small Triton kernel adds two vectors.

    Runs in a child process with a time limit, so that a crash or a hang of the driver is told here
    and ends nothing else.

    Why: libraries with Triton kernels (attention, quantised products) depend on it.
    Fix: see MACH052.
    Source: Triton, tutorial 01.
    """
    yield from findings(
        case,
        "triton",
        "a Triton kernel",
        "libraries with Triton kernels, torch.compile",
        "reefwatch explain MACH052",
    )
