"""MACH084: attention."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP, case, covers, doubt, findings, row


@check(
    "MACH084",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.attention",),
    good=(case("attention", row()),),
    bad=(
        case("attention", row("wrong", "flash bf16: NaN")),
        case("attention", row(), row("crash", "killed by SIGSEGV", "cuda:1")),
        case("attention", row("hang", "no answer in 60 s")),
    ),
    covers=covers("attention"),
    doubt=doubt("attention"),
)
def attention(case: Case) -> Iterator[Finding]:
    """Attention agrees with the math path, for each backend that torch allows here.

    Runs in a child process with a time limit, so that a crash or a hang of the driver is told here
    and ends nothing else.

    Why: backends differ by card and release; some gave NaN or wrong values for single head
    sizes.
    Fix: torch.nn.attention.sdpa_kernel with a backend that is right; another torch.
    Source: pytorch and AOTriton reports (SDPA D=8, D=72; public).
    """
    yield from findings(
        case,
        "attention",
        "attention",
        "language and image models",
        "torch.nn.attention.sdpa_kernel(SDPBackend.MATH), or another backend",
    )
