"""MACH104: CUDA sources and their build."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH104",
    Severity.WARNING,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("extension", "CUDAExtension"),),
    covers=covers,
    doubt=doubt,
)
def extension(case: Case) -> Iterator[Finding]:
    """CUDA sources build with hipcc.

    Why: torch.utils.cpp_extension translates them (hipify) on ROCm; flags of nvcc and paths of
    CUDA are not translated.
    Fix: build with the ROCm torch; drop -gencode and nvcc flags when torch.version.hip is set;
    ROCM_HOME in place of CUDA_HOME.
    Source: PyTorch, torch.utils.cpp_extension and hipify.
    """
    yield from findings(
        case,
        "extension",
        "torch.utils.cpp_extension translates them (hipify) on ROCm; flags of nvcc and "
        "paths of CUDA are not translated",
        "build with the ROCm torch; drop -gencode and nvcc flags when torch.version.hip "
        "is set; ROCM_HOME in place of CUDA_HOME",
    )
