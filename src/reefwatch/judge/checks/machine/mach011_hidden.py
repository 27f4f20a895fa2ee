"""MACH011: KFD nodes that this process may not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case


@check(
    "MACH011",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.hidden_nodes",),
    good=(case(GPU, hidden_nodes=[]),),
    bad=(
        case(GPU, hidden_nodes=[{"node": 2, "reason": "may not be read", "masked": True}]),
        case(GPU, hidden_nodes=[{"node": 2, "reason": "is empty", "masked": False}]),
    ),
)
def hidden(case: Case) -> Iterator[Finding]:
    """Every node of KFD's topology can be read.

    Why: the driver hides a GPU that was not granted to this container: its node stays in the
    list, and cannot be read. Tools that count nodes then count GPUs that nothing can use. A node
    that can be read and makes no sense (a copy that failed, a damaged file) may be a GPU of which
    nothing else is said here.
    Fix: grant the render node of the card: `--device /dev/dri/renderD<N>`; if the card is meant to
    be hidden, all is well, and this can be silenced. For a damaged one `sudo dmesg | grep -i kfd`,
    or, of a captured machine, a new `reefwatch doctor --capture`.
    Source: Linux, kfd_topology.c (kfd_devcgroup_check_permission).
    """
    rows = case.value("machine.hidden_nodes")
    yield from _one(
        case,
        [row for row in rows if row.get("masked", True)],
        "cannot be read",
        "multi-GPU work: these devices were not granted to this process",
        "grant the render nodes of these cards: --device /dev/dri/renderD<N>",
    )
    yield from _one(
        case,
        [row for row in rows if not row.get("masked", True)],
        "holds no sense",
        "every use: it may be a GPU, and nothing else here is said of it",
        "sudo dmesg | grep -i kfd; of a captured machine, a new capture",
    )


def _one(
    case: Case, rows: Sequence[Mapping[str, Any]], what: str, why: str, fix: str
) -> Iterator[Finding]:
    if rows:
        numbers = ", ".join(str(row["node"]) for row in rows[:8])
        seen = (case.evidence("machine.hidden_nodes"),)
        yield Finding(f"KFD node {numbers} {what}: {rows[0]['reason']}", seen, why=why, fix=fix)
