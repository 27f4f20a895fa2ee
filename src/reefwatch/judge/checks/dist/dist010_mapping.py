"""DIST010: a card for each rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case
from reefwatch.judge.dist_mapping import problems


def _rank(number: int, slot: str, **masks: str) -> dict[str, Any]:
    card = {"index": number, "current": number, "slot": slot, "uuid": "", "arch": "gfx1100"}
    about = {"host": "a", "local_rank": number, "devices": 2, "masks": masks, "card": card}
    return {"rank": number, **about}


def _covers(case: Case) -> tuple[Coverage, ...]:
    ranks = case.value("dist.ranks")
    return (Coverage("ranks", len(ranks), max(row["rank"] for row in ranks) + 1),)


@check(
    "DIST010",
    Severity.ERROR,
    needs=("dist.ranks",),
    good=(Case.of(dist__ranks=[_rank(0, "0000:03:00"), _rank(1, "0000:83:00")]),),
    bad=(
        Case.of(dist__ranks=[_rank(0, "0000:03:00"), _rank(1, "0000:03:00")]),
        Case.of(
            dist__ranks=[
                _rank(0, "0000:03:00", ROCR_VISIBLE_DEVICES="1", HIP_VISIBLE_DEVICES="1"),
                _rank(1, "0000:83:00"),
            ]
        ),
    ),
    covers=_covers,
)
def mapping(case: Case) -> Iterator[Finding]:
    """Each rank has a card of its own, and the masks mean what they say.

    ROCR_VISIBLE_DEVICES hides cards in the runtime; HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES,
    which HIP reads too, then counts those that are left. Cards are told apart by uuid or PCI
    address.

    Why: two ranks on one card halve its memory and its speed; a mask set twice means another card,
    or none.
    Fix: set one mask, alike on all ranks of a host or one card for each.
    Source: https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html,
    https://github.com/vllm-project/vllm/issues/12572
    """
    ranks = case.value("dist.ranks")
    for words, some, fix in problems(ranks):
        yield Finding(
            words,
            (
                Evidence(
                    "dist.ranks", [dict(r) for r in ranks if r["rank"] in some], source="each rank"
                ),
            ),
            Place(ranks=tuple(map(int, some))),
            why="a rank may compute on another card than it seems",
            fix=fix,
        )
