"""PERF006: the right card."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case


def _cards(*cards: tuple[str, bool | None, bool]) -> Case:
    rows = [{"name": n, "integrated": i, "used": u, "vram": 1 << 34} for n, i, u in cards]
    return Case.of(perf__gpu=True, perf__cards=rows)


@check(
    "PERF006",
    Severity.WARNING,
    when=("perf.gpu",),
    needs=("perf.cards",),
    good=(
        _cards(("RX 7900 XTX", False, True)),
        _cards(("Radeon Graphics", True, False), ("RX 7900 XTX", False, True)),
        _cards(("Radeon 890M", True, True)),
        _cards(("Radeon 890M", True, True), ("b", None, False)),
    ),
    bad=(_cards(("Radeon Graphics", True, True), ("RX 7900 XTX", False, False)),),
)
def integrated(case: Case) -> Iterator[Finding]:
    """The run uses the discrete GPU where there is one.

    Why: many processors have a small GPU, and ROCm counts it like any other. When it comes first,
    `cuda:0` is the integrated one: slower by an order of magnitude, with little memory of its own.
    Fix: set `HIP_VISIBLE_DEVICES` to the discrete card's index, or turn the integrated GPU off in
    the firmware.
    Source: ROCm, "GPU isolation techniques" (HIP_VISIBLE_DEVICES).
    """
    cards = case.value("perf.cards")
    better = [card["name"] for card in cards if card["integrated"] is False and not card["used"]]
    for card in cards:
        if card["used"] and card["integrated"] and better:
            yield Finding(
                f"the run computes on {card['name']}, which is part of the processor",
                (case.evidence("perf.cards"),),
                why=f"{better[0]} is there and was not used",
                fix="set HIP_VISIBLE_DEVICES to the discrete card",
            )
