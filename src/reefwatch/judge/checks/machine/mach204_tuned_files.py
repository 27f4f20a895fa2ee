"""MACH204: tuned kernels for the cards that are there."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge import carried


def _case(*names: str, absence: str = "speed") -> Case:
    data = {
        "library": "MIOpen",
        "package": "torch",
        "folder": "torch/share/miopen/db",
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
    "MACH204",
    Severity.NOTE,
    when=("codes.databases",),
    needs=("codes.gpus",),
    good=(_case("gfx90a", "gfx1100"), _case("gfx110x"), _case("gfx90a", absence="works")),
    bad=(_case("gfx90a", "gfx942"),),
)
def tuned_files(case: Case) -> Iterator[Finding]:
    """Tuned kernels of MIOpen, hipBLASLt and AOTriton are there for the GPUs.

    Why: without them the libraries still compute. MIOpen compiles and searches for minutes before
    the first step, torch leaves hipBLASLt for hipBLAS, attention takes the math path.
    Fix: none is needed; keep MIOpen's cache folder on a real disk so that it searches once.
    Limits: known by the names of the files.
    Source: MIOpen docs, conceptual/finddb; ROCm/legacy-rocm-build issue 3214.
    """
    yield from carried.databases(
        case,
        "speed",
        "for training with convolutions: minutes before the first step",
        "keep the cache of MIOpen; expect slow first steps",
    )
