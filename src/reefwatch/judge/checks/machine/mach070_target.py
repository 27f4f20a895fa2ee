"""MACH070: the targets of the wheel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, known, of_row, shown, title

_ROW = {"gfx": ["gfx1100", "gfx942"], "grade": "measured", "source": "build script"}


def _case(gpu: Any, **facts: Any) -> Case:
    torch = {"version": "2.13.0+rocm7.2", "release": "2.13.0"}
    return case(gpu, torch_rocm=True, torch=torch, expected=_ROW, **facts)


@check(
    "MACH070",
    Severity.ERROR,
    when=(AMD, "machine.torch_rocm"),
    needs=("machine.gpus", "machine.torch", "machine.expected"),
    good=(
        _case(GPU),
        _case(GPU | {"gfx": "gfx1103"}, arch_list=["gfx1103"]),
        _case(GPU | {"gfx": "gfx1032"}, variables={"HSA_OVERRIDE_GFX_VERSION": {"value": "x"}}),
    ),
    bad=(_case(GPU | {"gfx": "gfx1032"}), _case(GPU, arch_list=["gfx90a"])),
)
def target(case: Case) -> Iterator[Finding]:
    """Torch has kernels for each card that programs see.

    With --deep torch itself is asked (`torch.cuda.get_arch_list`); else the table says for which
    targets a release is built, and where that rests on build scripts the finding is a warning.

    Why: without kernels for the card the first launch fails: "invalid device function", "no kernel
    image is available", or a segmentation fault.
    Fix: a torch that has the card (`reefwatch plan --gpu ...`); else the override of the same
    generation.
    Source: pytorch, .ci/docker/manywheel/build.sh (torch.toml, gfx_source).
    """
    asked, row = case.known("machine.arch_list"), case.value("machine.expected")
    targets = asked or row["gfx"]
    if not targets or any(
        n.startswith("HSA_OVERRIDE") for n in case.known("machine.variables", ())
    ):
        return
    for gpu in shown(case):
        gfx = known(gpu["gfx"])
        if gfx is None or gfx in targets or gpu["integrated"] is True:
            continue
        evidence = (
            Evidence("arch list", list(asked), source="torch.cuda.get_arch_list()")
            if asked
            else of_row("targets", list(targets), row)
        )
        yield Finding(
            f"torch {case.value('machine.torch')['version']} is built for {', '.join(targets)}; "
            f"{title(gpu)} is {gfx}",
            (evidence,),
            why="every use: the first kernel fails",
            fix=f"reefwatch plan --gpu {gfx}",
        )
