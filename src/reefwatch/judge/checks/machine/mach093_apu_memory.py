"""MACH093: the memory of an APU."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, IGPU, case, devices, known, title

_GIB = 1 << 30
_HALF = Tolerance(0.55, "share of RAM that the GPU may not map", "the kernel's default is half")
_SOLE = IGPU | {"index": 0, "gfx": "gfx1151", "vram": _GIB // 2}


def _case(vram: int, gtt: int, ram: int) -> Case:
    gpu = _SOLE | {"vram": vram * _GIB, "gtt": gtt * _GIB}
    return case(gpu, memory={"total": ram * _GIB})


@check(
    "MACH093",
    Severity.NOTE,
    when=(AMD,),
    needs=("machine.gpus", "machine.memory"),
    good=(_case(1, 62, 64),),
    bad=(_case(1, 15, 64), _case(32, 16, 96)),
)
def apu_memory(case: Case) -> Iterator[Finding]:
    """An APU may map most of the memory of the machine.

    A note: torch counts what the GPU may map (GTT), not the carve-out of the firmware.

    Why: by default the kernel lets the GPU map half of what is left after the carve-out: a machine
    with 128 GiB then shows 15 GiB.
    Fix: a small carve-out in the firmware (512 MiB), and a larger limit on the kernel's command
    line: `ttm.pages_limit=<pages of 4 KiB>`.
    Source: TheRock issue 1054; Linux, drivers/gpu/drm/ttm.
    """
    ram = case.value("machine.memory").get("total", 0)
    for gpu in devices(case):
        vram, gtt = known(gpu["vram"]), known(gpu.get("gtt"))
        if gpu["integrated"] is not True or not ram or not gtt:
            continue
        if _HALF.exceeded_by(1 - gtt / ram):
            yield Finding(
                f"{title(gpu)} may map {gtt / _GIB:.1f} of {ram / _GIB:.1f} GiB"
                + (f", beside a carve-out of {vram / _GIB:.1f} GiB" if vram else ""),
                (Evidence("gtt", gtt, "bytes", "mem_info_gtt_total"),),
                why="models larger than that do not fit",
                fix=f"ttm.pages_limit={int(ram * 0.75) >> 12} on the kernel's command line",
            )
