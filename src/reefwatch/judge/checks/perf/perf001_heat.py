"""PERF001: heat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case

_HOT = Tolerance(
    0.05, "share of busy samples", "a card may touch its limit while its fan speeds up"
)
_CLOCK = Tolerance(
    0.95,
    "share of its highest clock",
    "above it a card is not slowed down, whatever bits it sets: RDNA cards have been seen to keep "
    "a temperature bit set at their highest clock",
)


def _heat(**parts: object) -> Case:
    usual: dict[str, object] = {
        "busy": 100,
        "told": 100,
        "hot": 0,
        "hot_clock": None,
        "reasons": {},
        "sensor": "hotspot",
        "hottest": 85.0,
        "limit": 110.0,
    }
    return Case.of(perf__gpu=True, perf__heat={**usual, **parts})


def _covers(case: Case) -> tuple[Coverage, ...]:
    heat = case.value("perf.heat")
    return (Coverage("busy samples with throttle reasons", heat["told"], heat["busy"]),)


def _share(heat: Mapping[str, Any]) -> float:
    return heat["hot"] / heat["told"] if heat["told"] else 0.0


def _doubt(case: Case) -> str:
    heat = case.value("perf.heat")
    if _HOT.exceeded_by(_share(heat)) and heat["hot_clock"] is None:
        return "the card told of heat, and its clock meanwhile is not known"
    return ""


_REASON = {"temperature: hotspot": 40}


@check(
    "PERF001",
    Severity.WARNING,
    when=("perf.gpu",),
    needs=("perf.heat",),
    good=(
        _heat(),
        _heat(hot=98, hot_clock=0.99, reasons={"temperature: hotspot": 98}),
        _heat(hot=3, hot_clock=0.5, reasons={"temperature: hotspot": 3}),
        _heat(told=0, hot=0),
    ),
    bad=(
        _heat(hot=40, hot_clock=0.6, reasons=_REASON),
        _heat(hottest=110.0),
        _heat(hottest=112.0, told=0),
    ),
    covers=_covers,
    doubt=_doubt,
)
def heat(case: Case) -> Iterator[Finding]:
    """The GPU is not slowed down by heat.

    Why: at its temperature limit a GPU lowers its clock, and the run takes longer for no reason
    that the code could show. Two signs count: a temperature reason told by the card while its
    clock is lower than it could be, and a sensor at the limit where the driver steps in.
    Fix: clean the cooler, let more air in, raise the fan curve, or lower the power limit: a cooler
    card at a lower limit is often faster than a hot one that throttles.
    Source: Linux, Documentation/gpu/amdgpu/thermal; NVML, nvmlClocksEventReasons.
    """
    heat = case.value("perf.heat")
    evidence = (case.evidence("perf.heat"),)
    fix = "more air, a cleaner cooler, a steeper fan curve, or a lower power limit"
    share, clock_then = _share(heat), heat["hot_clock"]
    if _HOT.exceeded_by(share) and clock_then is not None and not _CLOCK.exceeded_by(clock_then):
        reasons = ", ".join(sorted(heat["reasons"]))
        clock = f", at {clock_then:.0%} of its clock"
        yield Finding(
            f"slowed down by heat in {share:.0%} of {heat['told']} busy samples{clock} ({reasons})",
            evidence,
            fix=fix,
        )
    elif heat["sensor"] is not None and heat["hottest"] >= heat["limit"]:
        yield Finding(
            f"{heat['sensor']} reached {heat['hottest']:.0f} C, its limit is {heat['limit']:.0f} C",
            evidence,
            fix=fix,
        )
