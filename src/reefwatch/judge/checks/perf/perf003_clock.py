"""PERF003: the clock under load."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case

_LEAST = Tolerance(
    0.5,
    "share of the highest clock that is missing",
    "at their own power limit cards run dense matrix work well below the highest clock, but not at "
    "half of it",
)


def _clock(share: float, **reasons: int) -> Case:
    value = {"busy": 60, "median": 2500 * share, "max": 2500.0, "share": share, "reasons": reasons}
    return Case.of(perf__gpu=True, perf__clock=value)


def _covers(case: Case) -> tuple[Coverage, ...]:
    device = case.known("perf.device")
    busy = case.value("perf.clock")["busy"]
    return (
        (Coverage("samples, taken while the GPU was busy", busy, device["samples"]),)
        if device
        else ()
    )


@check(
    "PERF003",
    Severity.WARNING,
    when=("perf.gpu",),
    needs=("perf.clock",),
    good=(_clock(0.99), _clock(0.62, power=60), _clock(1.2)),
    bad=(_clock(0.2), _clock(0.4, power=60)),
    covers=_covers,
)
def clock(case: Case) -> Iterator[Finding]:
    """The GPU keeps its clock while it is busy.

    Why: a card that is busy at half of its clock takes twice as long: a power or temperature limit,
    a fixed performance level, a power supply that asks it to brake, or a driver that does not
    leave the idle state.
    Fix: look at the reasons that the card gives. `power_dpm_force_performance_level` should be
    `auto` on AMD; on NVIDIA `nvidia-smi -q -d PERFORMANCE` names the limit.
    Source: Linux, Documentation/gpu/amdgpu/thermal; NVML, nvmlClocksEventReasons.
    """
    value = case.value("perf.clock")
    if not _LEAST.exceeded_by(1 - value["share"]):
        return
    most = sorted(value["reasons"], key=lambda reason: -value["reasons"][reason])[:3]
    yield Finding(
        f"the clock was {value['median']:.0f} MHz at the median of {value['busy']} busy samples",
        (case.evidence("perf.clock"),),
        claimed=f"up to {value['max']:.0f} MHz, the card's highest clock",
        why=f"the card says: {', '.join(most)}" if most else "the card gives no reason",
        fix="lift the limit that the card names, and set the performance level to auto",
    )
