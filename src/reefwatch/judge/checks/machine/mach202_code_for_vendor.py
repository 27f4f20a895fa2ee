"""MACH202: packages that carry CUDA code only."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.data import targets
from reefwatch.judge import carried


def _case(*rows: tuple[str, str, str]) -> Case:
    events = [
        Event(
            "codes.file",
            {"path": path, "package": package, "targets": {name: 1}, "unknown": ()},
            id=path,
        )
        for path, package, name in rows
    ]
    scan = {"root": "w", "kind": "wheel", "looked": 2, "with_code": len(rows), "unread": []}
    return Case.of(*events, codes__gpus=["gfx1100"], codes__scan=scan, codes__nvidia=True)


@check(
    "MACH202",
    Severity.ERROR,
    when=("codes.nvidia",),
    needs=("codes.gpus", "codes.scan"),
    good=(_case(("a.so", "p", "sm_80"), ("b.so", "p", "gfx1100")), _case(("b.so", "p", "gfx90a"))),
    bad=(
        _case(("a.so", "p", "sm_80")),
        _case(("a.so", "p", "sm_80"), ("b.so", "q", "gfx1100")),
    ),
    doubt=lambda case: carried.first(carried.unread(case)),
)
def code_for_vendor(case: Case) -> Iterator[Finding]:
    """No package carries code for NVIDIA GPUs alone.

    Why: wheels on PyPI are mostly the CUDA builds. On an AMD GPU they import, or fail to find
    libcudart, and none of their kernels can run. `pip install torch` without the ROCm index, or
    with --extra-index-url, ends here.
    Fix: install the ROCm build from its own index with --index-url; `reefwatch plan` writes the
    command. Where there is none, build from source or use torch's own operators.
    Limits: a package that has its GPU code elsewhere (PTX made at run time) is not seen.
    Source: CUDA fat binaries found in .nv_fatbin and __nv_relfatbin.
    """
    rows = [event.data for event in case.rows("codes.file")]
    for package in dict.fromkeys(row["package"] for row in rows):
        every = {name for row in rows if row["package"] == package for name in row["targets"]}
        cuda = [name for name in every if not targets.is_amd(name)]
        if not cuda or len(cuda) < len(every):
            continue
        gpus = ", ".join(case.value("codes.gpus"))
        said = Evidence("codes.file", sorted(every), source=f"bytes of the files of {package}")
        yield Finding(
            f"{package} carries code for NVIDIA GPUs only ({carried.listed(cuda)}), "
            f"with {gpus} here",
            (said, case.evidence("codes.gpus")),
            why="for any use on the GPU: none of its kernels can run",
            fix=f"a ROCm build of {package}; `reefwatch plan` tells whether there is one",
        )
