"""MACH101: tests of torch.version.cuda."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH101",
    Severity.ERROR,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("cuda version", "torch.version.cuda"),),
    covers=covers,
    doubt=doubt,
)
def version(case: Case) -> Iterator[Finding]:
    """No code takes `torch.version.cuda` for the sign of a GPU build.

    Why: torch.version.cuda is None on ROCm: the code takes the way without a GPU, or fails.
    Fix: test torch.cuda.is_available(), or (torch.version.cuda or torch.version.hip).
    Source: PyTorch docs, notes/hip (HIP semantics).
    """
    yield from findings(
        case,
        "cuda version",
        "torch.version.cuda is None on ROCm: the code takes the way without a GPU, or fails",
        "test torch.cuda.is_available(), or (torch.version.cuda or torch.version.hip)",
    )
