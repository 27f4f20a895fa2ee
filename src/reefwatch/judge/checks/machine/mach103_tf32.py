"""MACH103: TF32 settings."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH103",
    Severity.WARNING,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("tf32", "torch.backends.cuda.matmul.allow_tf32"),),
    covers=covers,
    doubt=doubt,
)
def tf32(case: Case) -> Iterator[Finding]:
    """No result rests on TF32.

    Why: TF32 exists on gfx942 alone: elsewhere the flag does nothing, and fp32 products are
    fp32 (slower, and closer to the truth).
    Fix: leave the flag for NVIDIA; for speed on AMD use bf16 autocast.
    Source: PyTorch docs, notes/hip; rocm.toml, hipblaslt.tf32.
    """
    yield from findings(
        case,
        "tf32",
        "TF32 exists on gfx942 alone: elsewhere the flag does nothing, and fp32 products "
        "are fp32 (slower, and closer to the truth)",
        "leave the flag for NVIDIA; for speed on AMD use bf16 autocast",
    )
