"""MACH111: FP8 encodings."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH111",
    Severity.WARNING,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("fp8", "float8_e4m3fn"),),
    covers=covers,
    doubt=doubt,
)
def fp8(case: Case) -> Iterator[Finding]:
    """FP8 code asks the card for its encoding.

    Why: gfx942 has the FNUZ encodings (largest e4m3 value 240, not 448), gfx950 and gfx12 those
    of OCP, others none.
    Fix: choose float8_e4m3fnuz on gfx942, take torch.finfo(dtype).max for scales, and have a
    way without FP8.
    Source: gpus.toml, precision-support.rst; pytorch/ao PR 4130.
    """
    yield from findings(
        case,
        "fp8",
        "gfx942 has the FNUZ encodings (largest e4m3 value 240, not 448), gfx950 and "
        "gfx12 those of OCP, others none",
        "choose float8_e4m3fnuz on gfx942, take torch.finfo(dtype).max for scales, and "
        "have a way without FP8",
    )
