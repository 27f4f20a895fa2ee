"""DIST040: replicas stay equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case


def _told(*rows: list[Any]) -> dict[str, Any]:
    words = ("name", "step", "ranks", "sure")
    differ = [dict(zip(words, row, strict=True)) for row in rows]
    return {"looks": 9, "steps": 12, "tensors": 4, "count": len(rows), "differ": differ}


def _covers(case: Case) -> tuple[Coverage, ...]:
    told = case.value("ranks.replicas")
    return (Coverage("steps", told["looks"], told["steps"]),)


@check(
    "DIST040",
    Severity.ERROR,
    when=("ranks.several", "ranks.replicas"),
    needs=("ranks.replicas",),
    good=(Case.of(ranks__several=True, ranks__replicas=_told()),),
    bad=(
        Case.of(ranks__several=True, ranks__replicas=_told(["head.weight", 3, [1], True])),
        Case.of(
            ranks__several=True,
            ranks__replicas=_told(["a", 0, [0, 1], False], ["b", 0, [0, 1], False]),
        ),
    ),
    covers=_covers,
)
def replicas(case: Case) -> Iterator[Finding]:
    """Replicas have the same weights on every rank.

    Checksums of each parameter at the same steps of all ranks: all steps at first, then four of
    each doubling. Where more than two ranks hold a copy, the odd one is named.

    Why: ranks that have drifted apart average gradients of different models; the loss looks
    healthy.
    Fix: look for what one rank does alone: a skipped synchronisation, another seed, a card that
    computes wrongly (`reefwatch dist --phases replay`), weights that were loaded on rank 0 only.
    Source: https://github.com/pytorch/pytorch/issues/48188,
    https://github.com/pytorch/pytorch/issues/136009
    """
    told = case.value("ranks.replicas")
    rows = told["differ"]
    if not rows:
        return
    first = rows[0]
    names = ", ".join(row["name"] for row in rows[:3]) + (", ..." if told["count"] > 3 else "")
    who = ", ".join(map(str, first["ranks"]))
    which = f"rank {who} is the odd one" if first["sure"] else f"ranks {who} differ"
    yield Finding(
        f"{told['count']} of {told['tensors']} parameters are not the same on all ranks since step "
        f"{first['step']}: {names}; {which}",
        (Evidence("ranks.replicas", told, source="checksums of all ranks"),),
        Place(module=first["name"], step=first["step"]),
        why="gradients of different models are averaged",
        fix="look for what one rank does alone",
        names=tuple(row["name"] for row in rows),
    )
