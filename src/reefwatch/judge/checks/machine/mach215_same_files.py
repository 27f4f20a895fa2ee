"""MACH215: libraries that were replaced while the run used them."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case

_GONE = {
    "path": "/venv/torch/lib/libtorch_hip.so",
    "why": "the file in use was deleted or replaced",
}


@check(
    "MACH215",
    Severity.ERROR,
    needs=("lock.mapped",),
    good=(Case.of(lock__mapped={"looked": 3, "replaced": []}),),
    bad=(Case.of(lock__mapped={"looked": 3, "replaced": [_GONE]}),),
    doubt=lambda case: (
        "" if case.value("lock.mapped")["looked"] else "no locked library was in use"
    ),
)
def same_files(case: Case) -> Iterator[Finding]:
    """Libraries in use at the end of the run are the files that were checked at its start.

    Why: an upgrade in the same environment replaces files under a running job. What is loaded goes
    on as it was, and what is loaded later (kernels, spawned workers) is of the new version: one run
    of two versions.
    Fix: let the job have an environment of its own, and run it again.
    Limits: looks at the end, at this process, by inode, size and time; kernels that were read and
    not mapped are not seen.
    Source: proc(5), /proc/pid/maps.
    """
    told = case.value("lock.mapped")
    for row in told["replaced"]:
        yield Finding(
            f"{row['path']}: {row['why']}",
            (case.evidence("lock.mapped"),),
            claimed="locked, and checked when the run began",
            why="for any use: one run of two versions",
            fix="an environment that nothing else writes to",
        )
