"""COMP006: frames that dynamo left to eager."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.compile_frames import USED, case, covers, findings, row


@check(
    "COMP006",
    Severity.WARNING,
    when=(USED,),
    needs=("compile.frames",),
    covers=covers,
    good=(case(), case(row(kind="break", times=1))),
    bad=(case(row(kind="left", times=3)),),
)
def frames(case: Case) -> Iterator[Finding]:
    """Every function that dynamo met was compiled.

    Why: a function that is left to eager runs as slowly as before, and nothing says so.
    Fix: change the line that the finding names, or leave the function out on purpose with
    torch.compiler.disable.
    Source: https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    """
    yield from findings(case, "left")
