"""DIST030: no link stands out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_outliers import SLOW, links, slow


def _link(one: int, other: int, rate: float) -> Event:
    data: dict[str, Any] = {"phase": "bandwidth", "form": "link", "name": f"link {one}-{other}"}
    more = {"state": "right", "pair": [one, other], "busbw": rate, "bytes": 1 << 26}
    return Event("dist.step", {**data, **more}, id=f"{one}{other}")


_EVEN = (_link(0, 1, 40.0), _link(0, 2, 41.0), _link(1, 2, 39.0))


def _doubt(case: Case) -> str:
    few = len(links(case.rows("dist.step")))
    return "" if few >= 3 else f"{few} links: what is usual is told by 3 at least"


@check(
    "DIST030",
    Severity.WARNING,
    when=("dist.bandwidth",),
    needs=("dist.bandwidth",),
    good=(Case.of(*_EVEN, dist__bandwidth={"of": 3}),),
    bad=(Case.of(*_EVEN[:2], _link(1, 2, 9.0), dist__bandwidth={"of": 3}),),
    doubt=_doubt,
)
def bandwidth(case: Case) -> Iterator[Finding]:
    """No link between two ranks is much slower than the others.

    Messages both ways between each pair, alone; compared with the median of the links.

    Why: a collective is as fast as its slowest link; a card that fell back to a narrower link, or
    a node on the wrong network, costs the whole job.
    Fix: `reefwatch doctor` on the hosts that are named (MACH041 tells the width of the slot).
    Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    for row, usual in slow(case.rows("dist.step")):
        one, other = row["pair"]
        yield Finding(
            f"the link of ranks {one} and {other} reaches less than {SLOW.limit:.0%} of the usual "
            "bandwidth",
            (Evidence("dist.step", dict(row), source="timed messages"),),
            Place(op="link", ranks=(int(one), int(other))),
            claimed=f"{usual:.2f} GB/s is the median of the links, this one has {row['busbw']:.2f}",
            why="a collective is as fast as its slowest link",
            fix="reefwatch doctor on these hosts",
        )
