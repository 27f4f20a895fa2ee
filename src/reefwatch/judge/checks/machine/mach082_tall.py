"""MACH082: tall and narrow products."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP, case, covers, doubt, findings, row


@check(
    "MACH082",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.tall",),
    good=(case("tall", row()),),
    bad=(
        case("tall", row("wrong", "93% zeros")),
        case("tall", row(), row("crash", "killed by SIGSEGV", "cuda:1")),
        case("tall", row("hang", "no answer in 60 s")),
    ),
    covers=covers("tall"),
    doubt=doubt("tall"),
)
def tall(case: Case) -> Iterator[Finding]:
    """A product of a very tall and a narrow matrix has all of its rows.

    Runs in a child process with a time limit, so that a crash or a hang of the driver is told here
    and ends nothing else.

    Why: on gfx1201 fp32 products of 9 530 399 x 4 by 4 x 4 gave 93% zeros.
    Fix: split the rows into parts below a million; another ROCm.
    Source: ROCm/rocm-libraries issue 8645.
    """
    yield from findings(
        case,
        "tall",
        "a tall product",
        "embedding tables, point clouds, graph networks",
        "split the rows into parts of less than a million",
    )
