"""MACH112: devices called hip."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH112",
    Severity.ERROR,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("hip device", '.to("hip")'),),
    covers=covers,
    doubt=doubt,
)
def device(case: Case) -> Iterator[Finding]:
    """Devices are called cuda, also on ROCm.

    Why: there is no device of that name: ROCm answers to the name cuda.
    Fix: write cuda.
    Source: PyTorch docs, notes/hip.
    """
    yield from findings(
        case,
        "hip device",
        "there is no device of that name: ROCm answers to the name cuda",
        "write cuda",
    )
