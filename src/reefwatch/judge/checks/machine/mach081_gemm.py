"""MACH081: matrix products."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP, case, covers, doubt, findings, row


@check(
    "MACH081",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.gemm",),
    good=(case("gemm", row()),),
    bad=(
        case("gemm", row("wrong", "fp16: error 0.7")),
        case("gemm", row(), row("crash", "killed by SIGSEGV", "cuda:1")),
        case("gemm", row("hang", "no answer in 60 s")),
    ),
    covers=covers("gemm"),
    doubt=doubt("gemm"),
)
def gemm(case: Case) -> Iterator[Finding]:
    """A matrix product agrees with f64 on the processor, in fp32, fp16 and bf16.

    Runs in a child process with a time limit, so that a crash or a hang of the driver is told here
    and ends nothing else.

    Why: each dtype takes other kernels, and their files may be missing or of another release.
    Fix: see MACH003 and MACH062 for kernel files; TORCH_BLAS_PREFER_HIPBLASLT=0 where one
    library fails.
    Source: the bound is that of Higham, Accuracy and Stability, section 3.5, for the dtype's
    accumulation.
    """
    yield from findings(
        case,
        "gemm",
        "a matrix product",
        "every use",
        "reefwatch explain MACH062; try TORCH_BLAS_PREFER_HIPBLASLT=0",
    )
