"""MACH054: the processor's instructions."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case


def _cpu(avx2: bool | None) -> Case:
    return case(cpu={"model": "a processor", "count": 8, "avx2": avx2, "avx512": False})


_UNTOLD = "/proc/cpuinfo tells no flags of an x86 processor"


@check(
    "MACH054",
    Severity.WARNING,
    needs=("machine.cpu",),
    good=(_cpu(True),),
    bad=(_cpu(False),),
    doubt=lambda case: "" if case.value("machine.cpu")["avx2"] is not None else _UNTOLD,
)
def avx2(case: Case) -> Iterator[Finding]:
    """The processor has AVX2.

    Why: torch's fast paths on the processor are built for AVX2; without it they fall back, and some
    libraries of the ROCm stack stop with "illegal instruction".
    Fix: for a virtual machine choose the host's processor (`-cpu host`); else another machine.
    Source: PyTorch, ATen/native/cpu/README.md.
    """
    cpu = case.value("machine.cpu")
    if cpu["avx2"] is False:
        yield Finding(
            f"{cpu['model'] or 'the processor'} has no AVX2",
            (case.evidence("machine.cpu"),),
            why="data loading and everything on the processor is slow; some libraries stop",
            fix="in a virtual machine: -cpu host; else another machine",
        )
