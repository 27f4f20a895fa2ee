"""MACH080: sum of ones."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP, case, covers, doubt, findings, row


@check(
    "MACH080",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.sum",),
    good=(case("sum", row()),),
    bad=(
        case("sum", row("wrong", "4096 of 1048576")),
        case("sum", row(), row("crash", "killed by SIGSEGV", "cuda:1")),
        case("sum", row("hang", "no answer in 60 s")),
    ),
    covers=covers("sum"),
    doubt=doubt("sum"),
)
def sum(case: Case) -> Iterator[Finding]:
    """A sum of ones is their number.

    Runs in a child process with a time limit, so that a crash or a hang of the driver is told here
    and ends nothing else.

    Why: reductions go wrong without PCIe atomics, on some versions in silence.
    Fix: see MACH040; a slot of the processor; for a virtual machine AtomicOps on the root port.
    Source: pytorch issue 103973.
    """
    yield from findings(
        case,
        "sum",
        "the sum of ones",
        "every use: sums, means and losses",
        "reefwatch explain MACH040",
    )
