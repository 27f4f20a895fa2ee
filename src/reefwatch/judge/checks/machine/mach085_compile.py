"""MACH085: torch.compile."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP, case, covers, doubt, findings, row


@check(
    "MACH085",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.compile",),
    good=(case("compile", row()),),
    bad=(
        case("compile", row("wrong", "error 0.5")),
        case("compile", row(), row("crash", "killed by SIGSEGV", "cuda:1")),
        case("compile", row("hang", "no answer in 60 s")),
    ),
    covers=covers("compile"),
    doubt=doubt("compile"),
)
def compiled(case: Case) -> Iterator[Finding]:
    """A small compiled function computes what it computes without torch.compile.

    Runs in a child process with a time limit, so that a crash or a hang of the driver is told here
    and ends nothing else.

    Why: the compiler needs a Triton for this card, a C compiler and a writable cache.
    Fix: see MACH052; install gcc or clang; TORCHINDUCTOR_CACHE_DIR on a writable disk.
    Source: ROCm issue 3060.
    """
    yield from findings(
        case,
        "compile",
        "a compiled function",
        "torch.compile",
        "reefwatch explain MACH052",
    )
