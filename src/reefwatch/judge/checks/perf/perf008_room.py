"""PERF008: room in the GPU's memory."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case

_FULL = Tolerance(
    0.97,
    "share of the memory",
    "the rest is what the driver, a display and the kernels' own buffers are seen to need",
)
_SPILL = Tolerance(
    0.05,
    "share of the memory",
    "pinned batches are mapped as well; they are small against the card's memory",
)
_NEARLY = Tolerance(
    0.9, "share of the memory", "memory leaves a card for the system only when it is about full"
)


def _room(used: float, spilled: float | None = None, retries: int = 0) -> Case:
    room = {"used": used * 2**30, "total": 24.0 * 2**30, "spilled": spilled}
    memory = {"allocated": 0, "reserved": 0, "peak": 0, "owner": "layers.3", "retries": retries}
    return Case.of(perf__gpu=True, perf__room=room, perf__memory=memory)


@check(
    "PERF008",
    Severity.WARNING,
    when=("perf.gpu",),
    needs=("perf.room",),
    good=(_room(12), _room(23, spilled=2.0**20), _room(4, spilled=8 * 2.0**30)),
    bad=(_room(23.8), _room(23, spilled=4 * 2.0**30), _room(12, retries=2)),
)
def room(case: Case) -> Iterator[Finding]:
    """The GPU's memory has room for the run.

    Why: a full card makes the allocator give its cache back and ask again, which waits for all
    kernels, or the driver move data to system memory, behind the PCIe link. One batch longer than
    the others then ends the run.
    Fix: a smaller batch, activation checkpointing on the module that owns the peak, a fused
    optimizer without copies, or `PYTORCH_ALLOC_CONF=expandable_segments:True` against fragments.
    Source: PyTorch, "CUDA semantics", memory management (num_alloc_retries); Linux,
    Documentation/gpu/amdgpu/driver-misc (mem_info_gtt_used).
    """
    value = case.value("perf.room")
    memory = case.known("perf.memory") or {}
    total = value["total"]
    share = value["used"] / total if total > 0 else 0.0
    owner = memory.get("owner")
    why = f"{owner} owns the peak" if owner else ""
    fix = "a smaller batch, or activation checkpointing where the peak is"
    evidence = (case.evidence("perf.room"),)
    if memory.get("retries"):
        yield Finding(
            f"the allocator ran out of memory and emptied its cache {memory['retries']} times",
            (case.evidence("perf.memory"),),
            why=why,
            fix=fix,
        )
    spilled = value["spilled"] or 0.0
    if _NEARLY.exceeded_by(share) and _SPILL.exceeded_by(spilled / total):
        yield Finding(
            f"{spilled / 2**30:.1f} GiB of system memory were mapped when the card was "
            f"{share:.0%} full",
            evidence,
            why=why,
            fix=fix,
        )
    elif _FULL.exceeded_by(share):
        yield Finding(
            f"{share:.1%} of the card's {total / 2**30:.1f} GiB were in use",
            evidence,
            why=why,
            fix=fix,
        )
