"""MACH108: compute capabilities."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH108",
    Severity.WARNING,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("capability", "get_device_capability"),),
    covers=covers,
    doubt=doubt,
)
def capability(case: Case) -> Iterator[Finding]:
    """No decision rests on a CUDA compute capability.

    Why: on ROCm get_device_capability gives numbers of the gfx target ((11, 0) for gfx1100),
    which pass tests such as >= 8 by accident.
    Fix: ask for the property that is meant (bf16: torch.cuda.is_bf16_supported()), or for
    gcnArchName on ROCm.
    Source: PyTorch docs, notes/hip; ROCm issue 3060 (gfx1100 read as 11.0).
    """
    yield from findings(
        case,
        "capability",
        "on ROCm get_device_capability gives numbers of the gfx target ((11, 0) for "
        "gfx1100), which pass tests such as >= 8 by accident",
        "ask for the property that is meant (bf16: torch.cuda.is_bf16_supported()), or "
        "for gcnArchName on ROCm",
    )
