"""MACH092: the host's memory, and how much of it may be pinned."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known

_GIB = 1 << 30


def _case(total: int, memlock: int | None = None) -> Case:
    limit = {"bytes": memlock, "unlimited": memlock is None}
    memory = {"total": total * _GIB, "available": total * _GIB, "swap": 0}
    return case(GPU, memory=memory, memlock=limit)


@check(
    "MACH092",
    Severity.NOTE,
    when=(AMD,),
    needs=("machine.memory", "machine.gpus"),
    good=(_case(64),),
    bad=(_case(16), _case(64, 65536)),
)
def host_memory(case: Case) -> Iterator[Finding]:
    """The host has as much memory as the card, and may pin it.

    These are notes: smaller works, with care.

    Why: weights pass through the host on their way to the card, and pinned buffers stay resident;
    with too little, loading a model ends in "failed to allocate" of the kernel or is killed.
    Fix: load with `low_cpu_mem_usage=True` or safetensors; fewer pinned buffers; swap; in a
    container `--ulimit memlock=-1`.
    Source: ROCT-Thunk-Interface issue 76; ROCm container guide.
    """
    total = case.value("machine.memory").get("total", 0)
    most = max((known(gpu["vram"]) or 0 for gpu in devices(case)), default=0)
    if total and most > total:
        yield Finding(
            f"the host has {total / _GIB:.0f} GiB, and a card {most / _GIB:.0f} GiB",
            (case.evidence("machine.memory"),),
            why="loading models as large as the card",
            fix="safetensors and low_cpu_mem_usage=True; swap",
        )
    limit = case.known("machine.memlock", {}).get("bytes")
    if limit is not None and limit < 64 << 20:
        yield Finding(
            f"{limit >> 10} KiB of memory may be locked by this user",
            (Evidence("memlock", limit, "bytes", "getrlimit"),),
            why="RDMA and collectives between machines, which pin their buffers",
            fix="ulimit -l unlimited; in a container --ulimit memlock=-1",
        )
