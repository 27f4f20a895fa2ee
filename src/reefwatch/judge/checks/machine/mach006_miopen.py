"""MACH006: MIOpen's search settings."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case


def _set(**values: str) -> Case:
    return case(GPU, variables={name: {"value": value} for name, value in values.items()})


@check(
    "MACH006",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.variables",),
    good=(_set(), _set(MIOPEN_FIND_MODE="2"), _set(MIOPEN_FIND_ENFORCE="NONE")),
    bad=(
        _set(MIOPEN_FIND_ENFORCE="4"),
        _set(MIOPEN_FIND_ENFORCE="SEARCH"),
        _set(MIOPEN_DISABLE_CACHE="1"),
        _set(MIOPEN_DEBUG_CONV_WINOGRAD="0"),
    ),
)
def miopen(case: Case) -> Iterator[Finding]:
    """MIOpen searches for kernels once, keeps what it finds, and may use all of its solvers.

    Why: an enforced search takes minutes per convolution shape, on every run; without the cache
    each process compiles again; a solver that is switched off changes speed and rounding of every
    convolution.
    Fix: `unset MIOPEN_FIND_ENFORCE MIOPEN_DISABLE_CACHE`; MIOPEN_FIND_MODE=2 (FAST) where the first
    run takes too long.
    Source: MIOpen docs, reference/env_variables and conceptual/finddb; ROCm issue 4729.
    """
    variables = case.value("machine.variables")
    for name in sorted(n for n in variables if n.startswith("MIOPEN_")):
        value = variables[name]["value"].strip()
        if name == "MIOPEN_FIND_ENFORCE" and value.upper() not in ("", "1", "NONE"):
            why = "convolution networks: minutes of search for each new shape, on each run"
        elif name == "MIOPEN_DISABLE_CACHE" and value == "1":
            why = "convolution networks: every process compiles its kernels again"
        elif name.startswith("MIOPEN_DEBUG_CONV") and value == "0":
            why = "convolution networks: other solvers are taken, with other speed and rounding"
        else:
            continue
        yield Finding(
            f"{name}={value[:40]}",
            (Evidence(name, value[:200], source="the environment"),),
            why=why,
            fix=f"unset {name}",
        )
