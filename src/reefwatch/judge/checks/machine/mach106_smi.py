"""MACH106: calls of nvidia-smi."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH106",
    Severity.WARNING,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("smi", "nvidia-smi"),),
    covers=covers,
    doubt=doubt,
)
def smi(case: Case) -> Iterator[Finding]:
    """No code asks nvidia-smi or NVML.

    Why: it is not there on an AMD machine: the call fails, or the numbers are missing.
    Fix: torch.cuda.mem_get_info and torch.cuda.utilization for both; amd-smi where a tool is
    wanted (rocm-smi is gone in 10.1).
    Source: rocm.toml, rocm_smi_removed_in; AMD SMI docs.
    """
    yield from findings(
        case,
        "smi",
        "it is not there on an AMD machine: the call fails, or the numbers are missing",
        "torch.cuda.mem_get_info and torch.cuda.utilization for both; amd-smi where a "
        "tool is wanted (rocm-smi is gone in 10.1)",
    )
