"""PERF004: the PCIe link."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case

_LOST = Tolerance(
    0.49,
    "share of the link's bandwidth that is missing",
    "half is what the next smaller width or the next older generation gives",
)


def _link(width: int, speed: float, max_width: int = 16, max_speed: float = 16.0) -> Case:
    value = {"width": width, "max_width": max_width, "speed": speed, "max_speed": max_speed}
    return Case.of(perf__gpu=True, perf__link=value)


@check(
    "PERF004",
    Severity.WARNING,
    when=("perf.gpu",),
    needs=("perf.link",),
    good=(_link(16, 16.0), _link(8, 16.0, max_width=8), _link(16, 32.0, max_speed=32.0)),
    bad=(_link(4, 16.0), _link(16, 8.0), _link(1, 2.5)),
)
def link(case: Case) -> Iterator[Finding]:
    """The GPU's PCIe link is as wide and as fast as the card can be.

    Why: batches, and gradients between cards without a bridge, go over this link. A card in the
    wrong slot, on a riser, or beside an M.2 drive that takes lanes, has a fraction of it. The link
    is looked at while the card is busy: an idle one slows down by design.
    Fix: move the card to the slot that hangs on the processor with all lanes, reseat it, check the
    riser, and set the slot's generation in the firmware.
    Source: Linux, Documentation/ABI/testing/sysfs-bus-pci (current_link_speed, max_link_speed);
    NVML, nvmlDeviceGetCurrPcieLinkGeneration.
    """
    value = case.value("perf.link")
    now = value["width"] * value["speed"]
    most = value["max_width"] * value["max_speed"]
    if most > 0 and _LOST.exceeded_by(1 - now / most):
        yield Finding(
            f"the PCIe link runs at x{value['width']:.0f}, {value['speed']:g} GT/s",
            (case.evidence("perf.link"),),
            claimed=f"x{value['max_width']:.0f}, {value['max_speed']:g} GT/s, what the card can do",
            cost=f"{now / most:.0%} of the bandwidth between card and processor",
            fix="another slot, no riser, or the slot's generation in the firmware",
        )
