"""MACH023: saving waves (CWSR) on kernels where it hangs."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title, version

_HALO = GPU | {"gfx": "gfx1151", "integrated": True}


def _case(gpu: dict[str, object], kernel: str, cwsr: str) -> Case:
    return case(gpu, kernel=kernel, driver={"parameters": {"cwsr_enable": cwsr}})


def _doubt(case: Case) -> str:
    release = case.value("machine.kernel")
    return "" if version(release) else f"the kernel's release {release!r} holds no number"


@check(
    "MACH023",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.gpus", "machine.kernel", "machine.driver"),
    good=(
        _case(_HALO, "6.18.1", "1"),
        _case(_HALO, "6.17.0", "0"),
        _case(GPU, "6.8.0", "1"),
    ),
    bad=(_case(_HALO, "6.17.8-arch1", "1"),),
    doubt=_doubt,
)
def cwsr(case: Case) -> Iterator[Finding]:
    """The kernel reserves enough memory to save the waves of this card (CWSR).

    Why: before Linux 6.18 the driver reserved too little for the waves of gfx1151, and the GPU
    hung under load.
    Fix: Linux 6.18 or newer; until then boot with `amdgpu.cwsr_enable=0`.
    Source: ROCm issue 5590.
    """
    release = case.value("machine.kernel")
    enabled = case.value("machine.driver")["parameters"].get("cwsr_enable")
    if not version(release) or version(release) >= (6, 18) or enabled == "0":
        return
    how = "the default" if enabled is None else f"cwsr_enable={enabled}"
    for gpu in devices(case):
        if known(gpu["gfx"]) == "gfx1151":
            yield Finding(
                f"Linux {release} saves the waves of {title(gpu)} ({how}) in too little memory",
                (case.evidence("machine.kernel"), case.evidence("machine.driver")),
                claimed="Linux 6.18 or newer, or cwsr_enable=0",
                why="training and long inference: the GPU hangs under load",
                fix="Linux 6.18 or newer; until then boot with amdgpu.cwsr_enable=0",
            )
