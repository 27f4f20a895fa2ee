"""MACH046: how much of a card's memory the processor sees."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title

_HIDDEN = Tolerance(0.1, "share of VRAM that is not visible", "firmware keeps some MiB for itself")


def _case(visible: int) -> Case:
    return case(GPU | {"visible_vram": visible})


@check(
    "MACH046",
    Severity.NOTE,
    when=(AMD,),
    needs=("machine.gpus",),
    good=(_case(GPU["vram"]),),
    bad=(_case(256 << 20),),
)
def bar(case: Case) -> Iterator[Finding]:
    """The processor sees all memory of each card (resizable BAR).

    A note: everything works without, in small steps.

    Why: with a window of 256 MiB some copies go through it piece by piece, and copies between
    cards fall back to the host's memory.
    Fix: switch on "Above 4G decoding" and "Resizable BAR" in the firmware, and CSM off.
    Source: Linux, Documentation/gpu/amdgpu (mem_info_vis_vram_total).
    """
    for gpu in devices(case):
        total, seen = known(gpu["vram"]), known(gpu["visible_vram"])
        if not total or not seen or gpu["integrated"] is True or gpu["partition"]:
            continue
        if _HIDDEN.exceeded_by(1 - seen / total):
            yield Finding(
                f"{title(gpu)}: the processor sees {seen >> 20} of {total >> 20} MiB",
                (Evidence("visible VRAM", seen, "bytes", "mem_info_vis_vram_total"),),
                why="copies to and between cards",
                fix="resizable BAR and above 4G decoding in the firmware",
            )
