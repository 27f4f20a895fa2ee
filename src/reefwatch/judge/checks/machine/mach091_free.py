"""MACH091: memory of the cards that others hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title

_SHARE = Tolerance(0.25, "share of VRAM in use", "a desktop with browsers takes less")


def _used(share: float) -> Case:
    return case(GPU | {"vram_used": int(GPU["vram"] * share)}, holders=[])


def _doubt(case: Case) -> str:
    for gpu in devices(case):
        for field in ("vram", "vram_used"):
            if known(gpu[field]) is None and gpu["integrated"] is not True:
                return str(gpu[field]["unknown"])
    return ""


@check(
    "MACH091",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.gpus",),
    good=(_used(0.05),),
    bad=(_used(0.6),),
    doubt=_doubt,
)
def free(case: Case) -> Iterator[Finding]:
    """The memory of the cards is free.

    Why: what another process holds is not there for this one: out of memory at a size that
    should fit. A process that was killed may hold memory until it is gone.
    Fix: `ls /sys/class/kfd/kfd/proc` names the processes; end the ones that are yours.
    Source: Linux, kfd_process.c (vram_<gpu_id>).
    """
    holders = case.known("machine.holders", [])
    pids = ", ".join(
        str(row["pid"]) for row in holders if isinstance(row, Mapping) and row["vram"]
    )[:80]
    for gpu in devices(case):
        total, used = known(gpu["vram"]), known(gpu["vram_used"])
        if not total or used is None or gpu["integrated"] is True or gpu["partition"]:
            continue
        if _SHARE.exceeded_by(used / total):
            yield Finding(
                f"{title(gpu)}: {used / 2**30:.1f} of {total / 2**30:.1f} GiB are in use"
                + (f", by processes {pids}" if pids else ""),
                (Evidence("vram used", used, "bytes", "mem_info_vram_used"),),
                why="every use that needs the memory",
                fix="ls /sys/class/kfd/kfd/proc names the processes; end the ones that are yours",
            )
