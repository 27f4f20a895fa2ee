"""MACH062: kernel files of the BLAS and convolution libraries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, known, shown, title

_ALL = {"rocBLAS": ["gfx1100"], "hipBLASLt": ["gfx1100"], "MIOpen": ["gfx1100"]}


@check(
    "MACH062",
    Severity.ERROR,
    when=(AMD, "machine.torch_rocm"),
    needs=("machine.kernel_files", "machine.gpus"),
    good=(
        case(GPU, torch_rocm=True, kernel_files=_ALL),
        case(GPU, torch_rocm=True, kernel_files=_ALL | {"hipBLASLt": ["gfx942"]}),
    ),
    bad=(
        case(GPU, torch_rocm=True, kernel_files=_ALL | {"rocBLAS": ["gfx942"]}),
        case(GPU | {"gfx": "gfx1103"}, torch_rocm=True, kernel_files=_ALL),
    ),
)
def kernel_files(case: Case) -> Iterator[Finding]:
    """RocBLAS has kernel files for each card that programs see.

    Looked at are the names of the files beside the libraries. hipBLASLt and MIOpen do without
    files for a card (torch takes hipBLAS, MIOpen compiles), so they are no breach.

    Why: rocBLAS stops the whole process when its TensileLibrary file for the card is missing.
    Fix: a torch whose wheel has the card (`reefwatch plan`); where there is none, the override of
    the same generation (`reefwatch explain MACH001`).
    Source: ROCm/AMDMIGraphX pull 3517; rocBLAS, Tensile library files.
    """
    files: Mapping[str, list[str]] = case.value("machine.kernel_files")
    variables = case.known("machine.variables", {})
    if "rocBLAS" not in files or any(n.startswith("HSA_OVERRIDE_GFX") for n in variables):
        return
    for gpu in shown(case):
        gfx = known(gpu["gfx"])
        if gfx and gfx not in files["rocBLAS"] and gpu["integrated"] is not True:
            yield Finding(
                f"rocBLAS has no kernel file for {gfx} ({title(gpu)}); it has "
                f"{', '.join(files['rocBLAS'][:12])}",
                (Evidence("rocBLAS", files["rocBLAS"], source="names of kernel files"),),
                why="every use: the first matrix product ends the process",
                fix=f"a wheel with {gfx}: reefwatch plan --gpu {gfx}",
            )
