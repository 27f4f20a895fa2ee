"""MACH105: packages for CUDA alone."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH105",
    Severity.WARNING,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("requirement", "cupy-cuda12x"),),
    covers=covers,
    doubt=doubt,
)
def requirement(case: Case) -> Iterator[Finding]:
    """What is required can be installed on ROCm.

    Why: the package, or this build of it, is for CUDA alone; from PyPI it brings a CUDA torch
    with it.
    Fix: take it out, or for ROCm its own build: torch from the rocm index, amdsmi for pynvml,
    torch's scaled_dot_product_attention for xformers and flash-attn.
    Source: libs.toml.
    """
    yield from findings(
        case,
        "requirement",
        "the package, or this build of it, is for CUDA alone; from PyPI it brings a CUDA "
        "torch with it",
        "take it out, or for ROCm its own build: torch from the rocm index, amdsmi for "
        "pynvml, torch's scaled_dot_product_attention for xformers and flash-attn",
    )
