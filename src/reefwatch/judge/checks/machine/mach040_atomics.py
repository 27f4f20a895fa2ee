"""MACH040: PCIe atomics."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title

_NOT_SEEN = GPU | {"atomics": {"unknown": "no link to a processor"}}


def _doubt(case: Case) -> str:
    unknown = [g["atomics"]["unknown"] for g in devices(case) if known(g["atomics"]) is None]
    return unknown[0] if unknown else ""


def _covers(case: Case) -> tuple[Coverage, ...]:
    seen = [gpu for gpu in devices(case) if known(gpu["atomics"]) is not None]
    return (Coverage("devices", len(seen), len(devices(case))),)


@check(
    "MACH040",
    Severity.ERROR,
    when=(AMD,),
    needs=("machine.gpus",),
    good=(case(GPU), case(GPU | {"integrated": True})),
    bad=(case(GPU | {"atomics": False}), case(_NOT_SEEN, GPU | {"atomics": False})),
    covers=_covers,
    doubt=_doubt,
)
def atomics(case: Case) -> Iterator[Finding]:
    """PCIe atomics reach from each card to the processor.

    The driver asks the path for them when it starts, and marks KFD's link to the processor when
    they were refused; that mark is read here, so no root is needed.

    Why: reductions need them. Without, `torch.sum` fails or is silently wrong on some versions:
    black images, NaN losses, while element-wise operations work.
    Fix: a slot that hangs on the processor, not on the chipset; no Thunderbolt, no riser; for a
    virtual machine a root port with AtomicOps completion.
    Source: Linux, kfd_topology.c (CRAT_IOLINK_FLAGS_NO_ATOMICS); pytorch issue 103973.
    """
    for gpu in devices(case):
        if gpu["atomics"] is False:
            yield Finding(
                f"PCIe atomics do not reach from {title(gpu)} to the processor",
                (Evidence("atomics", False, source=f"io_links of KFD node {gpu['node']}"),),
                why="every use: sums and other reductions fail, or are silently wrong",
                fix="put the card into a slot of the processor; check with "
                "`reefwatch doctor --deep`",
            )
