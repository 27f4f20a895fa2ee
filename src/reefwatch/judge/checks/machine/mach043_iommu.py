"""MACH043: the IOMMU between several cards."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case


def _case(iommu: bool, *words: str) -> Case:
    return case(GPU, several=True, iommu=iommu, cmdline=list(words), variables={})


@check(
    "MACH043",
    Severity.WARNING,
    when=(AMD, "machine.several"),
    needs=("machine.iommu", "machine.cmdline"),
    good=(_case(True, "iommu=pt"), _case(False), _case(True, "amd_iommu=on", "iommu=pt")),
    bad=(_case(True), _case(True, "amd_iommu=on")),
)
def iommu(case: Case) -> Iterator[Finding]:
    """With several cards the IOMMU is off, or passes addresses through.

    Why: with the IOMMU translating, copies between cards go wrong or hang: collectives of RCCL
    stop at the first all_reduce.
    Fix: add `iommu=pt` to GRUB_CMDLINE_LINUX in /etc/default/grub, `sudo update-grub`, restart.
    Source: ROCm install guide, multi-GPU; public reports of RCCL hangs on MI250 and MI100.
    """
    words = case.value("machine.cmdline")
    if not case.value("machine.iommu"):
        return
    if not {"iommu=pt", "iommu=off", "amd_iommu=off", "intel_iommu=off"} & set(words):
        yield Finding(
            "the IOMMU translates addresses (no iommu=pt on the kernel's command line), "
            "and there are several cards",
            (case.evidence("machine.iommu"), case.evidence("machine.cmdline")),
            why="multi-GPU work: copies between cards hang or go wrong",
            fix="add iommu=pt to GRUB_CMDLINE_LINUX, sudo update-grub, restart",
        )
