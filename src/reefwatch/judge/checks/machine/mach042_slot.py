"""MACH042: slots of the chipset."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title

_SECOND = GPU | {"index": 1, "node": 2, "slot": "0000:0b:00.0"}


def _doubt(case: Case) -> str:
    unknown = [g["bridges"]["unknown"] for g in devices(case) if known(g["bridges"]) is None]
    return unknown[0] if unknown else ""


@check(
    "MACH042",
    Severity.WARNING,
    when=(AMD, "machine.several"),
    needs=("machine.gpus",),
    good=(case(GPU, _SECOND, several=True),),
    bad=(case(GPU, _SECOND | {"bridges": 2}, several=True),),
    doubt=_doubt,
)
def slot(case: Case) -> Iterator[Finding]:
    """Cards that work together hang on the processor, not on the chipset.

    Counted are the bridges between card and root port; a card's own switch does not count.

    Why: slots behind the chipset share one link, may lack atomics, and are not supported for
    several Radeons: copies between cards are slow, or give NaN.
    Fix: the slots that the board's manual calls CPU slots, at equal width.
    Source: ROCm Radeon limitations page (docs-5.7.0); PyTorch reports of copies between Radeons.
    """
    for gpu in devices(case):
        count = known(gpu["bridges"])
        if count and gpu["integrated"] is not True:
            yield Finding(
                f"{title(gpu)} hangs behind {count} bridge{'s' if count > 1 else ''}",
                (Evidence("bridges", count, source="the path of its PCI device"),),
                why="multi-GPU work: copies between cards share one link, and may lack atomics",
                fix="a slot of the processor; a server with a PCIe switch can silence this",
            )
