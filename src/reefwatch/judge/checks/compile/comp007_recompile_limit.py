"""COMP007: the recompile limit."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.compile_frames import USED, case, covers, findings, row


@check(
    "COMP007",
    Severity.WARNING,
    when=(USED,),
    needs=("compile.frames",),
    covers=covers,
    good=(case(), case(row(kind="left", times=1))),
    bad=(case(row(kind="limit", times=3)),),
)
def limits(case: Case) -> Iterator[Finding]:
    """No function was compiled so often that dynamo gave up.

    Why: from there on the function runs in eager for each input that no earlier version fits.
    Fix: mark what changes as dynamic (torch._dynamo.mark_dynamic, dynamic=True), keep Python
    numbers that change out of the call, or raise the limit that the finding names.
    Source: https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    """
    yield from findings(case, "limit")
