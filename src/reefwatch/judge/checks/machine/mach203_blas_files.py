"""MACH203: rocBLAS kernels for the cards that are there."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge import carried


def _case(*names: str, library: str = "rocBLAS", absence: str = "works") -> Case:
    data = {
        "library": library,
        "package": "torch",
        "folder": "torch/lib/rocblas/library",
        "files": len(names),
        "targets": names,
        "absence": absence,
    }
    return Case.of(
        Event("codes.database", data, id="torch"),
        codes__gpus=["gfx1100"],
        codes__databases=True,
    )


@check(
    "MACH203",
    Severity.ERROR,
    when=("codes.databases",),
    needs=("codes.gpus",),
    good=(_case("gfx90a", "gfx1100"), _case("gfx90a", library="MIOpen", absence="speed")),
    bad=(_case("gfx90a", "gfx942"),),
)
def blas_files(case: Case) -> Iterator[Finding]:
    """Kernel files that rocBLAS needs are there for the GPUs.

    Why: rocBLAS loads its matrix products from Tensile files, one set per target. Without a set for
    the card the first matmul ends the process ("Cannot read TensileLibrary.dat"), while everything
    before it works.
    Fix: install the wheel or the device package for the card (`rocm-sdk-device-<gfx>`,
    `amd-torch-device-<gfx>`), or unset ROCBLAS_TENSILE_LIBPATH where it points elsewhere.
    Limits: known by the names of the files, so a finding is a warning.
    Source: rocBLAS, library/src/tensile_host.cpp; pytorch issue 96964.
    """
    yield from carried.databases(
        case,
        "works",
        "for any use: the first matrix product ends the process",
        "the wheel or device package for the card; `reefwatch plan` names it",
    )
