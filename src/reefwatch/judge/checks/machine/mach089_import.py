"""MACH089: torch loads."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP, case, covers, doubt, findings, row


@check(
    "MACH089",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.import",),
    good=(case("import", row()),),
    bad=(
        case("import", row("wrong", "4096 of 1048576")),
        case("import", row(), row("crash", "killed by SIGSEGV", "cuda:1")),
        case("import", row("hang", "no answer in 60 s")),
    ),
    covers=covers("import"),
    doubt=doubt("import"),
)
def imports(case: Case) -> Iterator[Finding]:
    """Torch, where it is installed, can be imported.

    Runs in a child process with a time limit, so that a crash of a library is told here and ends
    nothing else.

    Why: a library that torch asks for is missing, of another release, or stops while it loads.
    Fix: the file that the message names: from the ROCm of torch's release, or by a torch of this
    environment's index (`reefwatch explain MACH060`).
    Source: ROCm issue 6053 (libroctx64 under WSL2); pccr10001/comfyui-gfx1151-fa issue 1.
    """
    yield from findings(
        case,
        "import",
        "import torch",
        "every use",
        "reefwatch explain MACH060; the message names the library that is missing",
    )
