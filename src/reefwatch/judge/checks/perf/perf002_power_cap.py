"""PERF002: the power limit."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case

_LOWERED = Tolerance(
    0.05, "share of the card's own limit", "drivers round the limit to whole steps"
)


def _cap(cap: float, default: float) -> Case:
    return Case.of(perf__gpu=True, perf__cap={"cap": cap, "default": default})


@check(
    "PERF002",
    Severity.WARNING,
    when=("perf.gpu",),
    needs=("perf.cap",),
    good=(_cap(290, 290), _cap(333, 290), _cap(300, 304)),
    bad=(_cap(120, 304), _cap(250, 290)),
)
def power_cap(case: Case) -> Iterator[Finding]:
    """The GPU's power limit is the one that it was built with.

    Why: a limit that somebody lowered once, for noise or for a small power supply, stays in force
    over reboots where a tool sets it again, and slows each run down without a word.
    Fix: raise it again (LACT, CoreCtrl, `amd-smi set`, or the file power1_cap on AMD;
    `nvidia-smi -pl` on NVIDIA), or silence this check when the limit is meant.
    Source: Linux, Documentation/gpu/amdgpu/thermal (power1_cap_default); NVML,
    nvmlDeviceGetPowerManagementDefaultLimit.
    """
    cap, default = case.value("perf.cap")["cap"], case.value("perf.cap")["default"]
    if _LOWERED.exceeded_by(1 - cap / default):
        yield Finding(
            f"the power limit is {cap:.0f} W",
            (case.evidence("perf.cap"),),
            claimed=f"{default:.0f} W, the card's own limit",
            why="the limit was lowered on this machine",
            fix="raise it again, or silence this check when it is meant",
        )
