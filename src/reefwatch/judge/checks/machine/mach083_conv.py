"""MACH083: convolution and batch norm."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP, case, covers, doubt, findings, row


@check(
    "MACH083",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.conv",),
    good=(case("conv", row()),),
    bad=(
        case("conv", row("wrong", "weight gradient: error 3.1")),
        case("conv", row(), row("crash", "killed by SIGSEGV", "cuda:1")),
        case("conv", row("hang", "no answer in 60 s")),
    ),
    covers=covers("conv"),
    doubt=doubt("conv"),
)
def conv(case: Case) -> Iterator[Finding]:
    """Convolution and batch norm train: forward and backward agree with the processor.

    Runs in a child process with a time limit, so that a crash or a hang of the driver is told here
    and ends nothing else.

    Why: MIOpen compiles kernels at the first call; where that fails torch says
    miopenStatusUnknownError.
    Fix: look at MIOpen's own lines on stderr above; MIOPEN_FIND_MODE=2; a writable
    ~/.cache/miopen.
    Source: MIOpen reports on gfx1151 and gfx1100 (public).
    """
    yield from findings(
        case,
        "conv",
        "a convolution with batch norm",
        "convolution networks: training",
        "rerun with MIOPEN_ENABLE_LOGGING=1; reefwatch explain MACH090",
    )
