"""MACH024: trouble in the kernel's log."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case

_LINE = "[ 812.1] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1"


@check(
    "MACH024",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.log",),
    good=(case(GPU, log=[]),),
    bad=(case(GPU, log=[_LINE]), case(GPU, log=["amdgpu: PCIE atomic ops is not supported"])),
)
def log(case: Case) -> Iterator[Finding]:
    """The GPU has not hung, faulted or been reset since the machine started.

    A line that says that a reset succeeded is no sign of health, and is not counted either.

    Why: after a reset memory may be lost and programs hold dead contexts; a card that hangs once
    often hangs again under the same load.
    Fix: save the log (`sudo dmesg > log.txt`), power the machine off and on, update kernel and
    linux-firmware, and look at power limit and heat.
    Source: ROCm issues 2533, 3166 and 4021.
    """
    lines = case.value("machine.log")
    if lines:
        yield Finding(
            f"{len(lines)} line{'s' if len(lines) > 1 else ''} of trouble in the kernel's log; "
            f"last: {lines[-1][:140]}",
            (Evidence("kernel log", list(lines[-5:]), source="dmesg"),),
            why="training and long inference: what hung once may hang again",
            fix="sudo dmesg > log.txt; reefwatch triage log.txt; power off and on",
        )
