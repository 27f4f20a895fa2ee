"""MACH102: a warp of 32."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH102",
    Severity.ERROR,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("warp", "threadIdx.x % 32"),),
    covers=covers,
    doubt=doubt,
)
def warp(case: Case) -> Iterator[Finding]:
    """No kernel takes a warp for 32 lanes.

    Why: waves have 64 lanes on CDNA (MI series) and GCN, 32 on RDNA: reductions over a literal
    warp are wrong on the former.
    Fix: use warpSize; masks of 64 bits (0xffffffffffffffffull) for the _sync functions; run it
    on wave64 before trusting it.
    Source: HIP porting guide, warp size; gpus.toml.
    """
    yield from findings(
        case,
        "warp",
        "waves have 64 lanes on CDNA (MI series) and GCN, 32 on RDNA: reductions over a "
        "literal warp are wrong on the former",
        "use warpSize; masks of 64 bits (0xffffffffffffffffull) for the _sync functions; "
        "run it on wave64 before trusting it",
    )
