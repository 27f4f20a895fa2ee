"""MACH012: WSL2."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case


@check(
    "MACH012",
    Severity.ERROR,
    when=("machine.wsl",),
    needs=("machine.dxg", "machine.variables"),
    good=(case(wsl=True, dxg=True, variables={}),),
    bad=(
        case(wsl=True, dxg=False, variables={}),
        case(wsl=True, dxg=True, variables={"HSA_ENABLE_DXG_DETECTION": {"value": "0"}}),
    ),
)
def wsl(case: Case) -> Iterator[Finding]:
    """Under WSL2 the GPU is passed through by /dev/dxg.

    Why: WSL2 has no amdgpu and no /dev/kfd; ROCm reaches the card through Windows' driver.
    Fix: `wsl --update` and a current Adrenalin driver in Windows; then AMD's WSL packages:
    `amdgpu-install --usecase=wsl,rocm --no-dkms`.
    Source: ROCm 10.1.0 release notes; ROCm issue 6053.
    """
    variables = case.value("machine.variables")
    if not case.value("machine.dxg"):
        yield Finding(
            "/dev/dxg is not there",
            (case.evidence("machine.dxg"),),
            why="every use: ROCm under WSL2 has no other way to the card",
            fix="in Windows: wsl --update, and install the current Adrenalin driver",
        )
    if variables.get("HSA_ENABLE_DXG_DETECTION", {}).get("value") == "0":
        yield Finding(
            "HSA_ENABLE_DXG_DETECTION=0 turns the search for /dev/dxg off",
            (case.evidence("machine.variables"),),
            why="every use: the runtime does not look for the card",
            fix="unset HSA_ENABLE_DXG_DETECTION",
        )
