"""MACH041: the width of the PCIe link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title

_LEAST = Tolerance(0.5, "share of lanes missing", "x8 of x16 is how boards split two slots")


def _wide(width: float, most: float = 16.0) -> Case:
    return case(GPU | {"link": {"width": width, "max_width": most, "speed": 2.5}})


def _doubt(case: Case) -> str:
    links = [gpu["link"] for gpu in devices(case)]
    bare = [link for link in links if known(link) and "max_width" not in link]
    reasons = [link["unknown"] for link in links if known(link) is None]
    reasons += [
        f"the card's own link alone is seen, not its slot's: {_why(gpu)}"
        for gpu in devices(case)
        if known(gpu["link"]) and known(gpu["bridges"]) is None and gpu["integrated"] is not True
    ]
    return reasons[0] if reasons else "the most lanes of a card are not told" if bare else ""


def _why(gpu: Mapping[str, Any]) -> str:
    return str(gpu["bridges"]["unknown"])


@check(
    "MACH041",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.gpus",),
    good=(_wide(16), _wide(8), _wide(8, 8)),
    bad=(_wide(4), _wide(1)),
    doubt=_doubt,
)
def link(case: Case) -> Iterator[Finding]:
    """Each card has at least half of the PCIe lanes that it can use.

    Lanes stay when the card idles; the speed does not, and is looked at under load (PERF004).

    Why: data, and gradients between cards, go over this link. x4 and x1 are slots of the chipset,
    risers, or a slot that shares lanes with an M.2 drive; multi-GPU work wants equal widths.
    Fix: the slot next to the processor; read in the board's manual which slots share lanes.
    Source: Linux, Documentation/ABI/testing/sysfs-bus-pci; ROCm Radeon limitations page.
    """
    for gpu in devices(case):
        lanes = known(gpu["link"])
        if not lanes or not lanes.get("max_width") or gpu["integrated"] is True:
            continue
        width, most = lanes["width"], lanes["max_width"]
        if _LEAST.exceeded_by(1 - width / most):
            yield Finding(
                f"{title(gpu)} runs on x{width:.0f} of x{most:.0f} lanes",
                (Evidence("link", dict(lanes), "lanes, GT/s", "sysfs"),),
                cost=f"{width / most:.0%} of the bandwidth between card and processor",
                why="training from the host's memory, and all multi-GPU work",
                fix="another slot, or no riser",
            )
