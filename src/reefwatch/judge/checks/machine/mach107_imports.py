"""MACH107: imports of CUDA libraries."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH107",
    Severity.ERROR,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("import", "import pycuda"),),
    covers=covers,
    doubt=doubt,
)
def imports(case: Case) -> Iterator[Finding]:
    """No module for CUDA alone is imported.

    Why: the import fails on ROCm, or finds a CUDA build that cannot run.
    Fix: guard the import; torch's own attention for xformers and flash_attn, torch or cupy-rocm
    for cupy, amdsmi for pynvml.
    Source: libs.toml.
    """
    yield from findings(
        case,
        "import",
        "the import fails on ROCm, or finds a CUDA build that cannot run",
        "guard the import; torch's own attention for xformers and flash_attn, torch or "
        "cupy-rocm for cupy, amdsmi for pynvml",
    )
