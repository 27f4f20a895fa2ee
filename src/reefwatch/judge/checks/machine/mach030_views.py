"""MACH030: KFD, DRM and PCI show the same GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title

_LOST = GPU | {"views": ["drm"], "node": None, "index": None}


@check(
    "MACH030",
    Severity.ERROR,
    when=(AMD,),
    needs=("machine.gpus", "machine.kfd"),
    good=(
        case(GPU, kfd=True),
        case(_LOST | {"driver": "vfio-pci"}, GPU, kfd=True),
        case(GPU, _LOST, kfd=True, hidden_nodes=[{"node": 2, "reason": "not granted"}]),
    ),
    bad=(case(_LOST, kfd=True), case(_LOST, kfd=False)),
)
def views(case: Case) -> Iterator[Finding]:
    """Each GPU that amdgpu drives can also compute: KFD has a node for it.

    Why: graphics work and ROCm does not when the kernel was built without HSA_AMD, when the card is
    not supported by KFD, or when a container was not granted it.
    Fix: `zgrep HSA_AMD /proc/config.gz` (or /boot/config-$(uname -r)) must say y; in a container
    pass /dev/kfd and the card's render node; `sudo dmesg | grep kfd` names the reason for a card.
    Source: Linux, drivers/gpu/drm/amd/amdkfd.
    """
    has_kfd = case.value("machine.kfd")
    lost = [g for g in devices(case) if g["node"] is None and known(g["driver"]) == "amdgpu"]
    if len(lost) <= len(case.known("machine.hidden_nodes", ())):
        return  # a container sees all cards of its host, and was granted some: MACH011 tells it
    for gpu in lost:
        why_not = "the kernel offers no KFD" if not has_kfd else "KFD has no node for it"
        yield Finding(
            f"{title(gpu)} is driven by amdgpu, and {why_not}",
            (Evidence("views", list(gpu["views"]), source="sysfs"), case.evidence("machine.kfd")),
            claimed="a node in /sys/class/kfd/kfd/topology/nodes",
            why="every use: ROCm does not see the card",
            fix="sudo dmesg | grep -i kfd",
        )
