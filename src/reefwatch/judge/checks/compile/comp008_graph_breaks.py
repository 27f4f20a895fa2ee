"""COMP008: graph breaks."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.compile_frames import USED, case, covers, findings, row


@check(
    "COMP008",
    Severity.WARNING,
    when=(USED,),
    needs=("compile.frames",),
    covers=covers,
    good=(case(), case(row(kind="left", times=1))),
    bad=(case(row(kind="break", times=3)),),
)
def breaks(case: Case) -> Iterator[Finding]:
    """No graph is broken in a function that is called again and again.

    Why: each break ends a graph: less is fused, and Python runs in between.
    Fix: change the line that the finding names; fullgraph=True raises at each break.
    Source: https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    """
    yield from findings(case, "break")
