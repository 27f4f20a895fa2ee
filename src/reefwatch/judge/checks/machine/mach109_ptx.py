"""MACH109: NVIDIA instructions."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH109",
    Severity.ERROR,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("ptx", "asm volatile"),),
    covers=covers,
    doubt=doubt,
)
def ptx(case: Case) -> Iterator[Finding]:
    """No kernel holds NVIDIA's instructions.

    Why: PTX, CUTLASS and tensor-core intrinsics are not translated: the build fails.
    Fix: write the part in HIP or Triton; Composable Kernel or rocWMMA for matrix products.
    Source: HIP porting guide; ROCm docs, rocWMMA and Composable Kernel.
    """
    yield from findings(
        case,
        "ptx",
        "PTX, CUTLASS and tensor-core intrinsics are not translated: the build fails",
        "write the part in HIP or Triton; Composable Kernel or rocWMMA for matrix products",
    )
