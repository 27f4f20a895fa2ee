"""MACH011: KFD nodes that this process may not read."""

from __future__ import annotations

from collections.abc import Iterator

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
    bad=(case(GPU, hidden_nodes=[{"node": 2, "reason": "may not be read by this process"}]),),
)
def hidden(case: Case) -> Iterator[Finding]:
    """Every node of KFD's topology can be read.

    Why: the driver hides a GPU that was not granted to this container: its node stays in the
    list, and cannot be read. Tools that count nodes then count GPUs that nothing can use.
    Fix: grant the render node of the card: `--device /dev/dri/renderD<N>`; if the card is meant to
    be hidden, all is well, and this can be silenced.
    Source: Linux, kfd_topology.c (kfd_devcgroup_check_permission).
    """
    rows = case.value("machine.hidden_nodes")
    if rows:
        numbers = ", ".join(str(row["node"]) for row in rows[:8])
        yield Finding(
            f"KFD node {numbers} cannot be read: {rows[0]['reason']}",
            (case.evidence("machine.hidden_nodes"),),
            why="multi-GPU work: these devices were not granted to this process",
            fix="grant the render nodes of these cards: --device /dev/dri/renderD<N>",
        )
