"""MACH004: TunableOp."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case

_ON, _CHECK = "PYTORCH_TUNABLEOP_ENABLED", "PYTORCH_TUNABLEOP_NUMERICAL_CHECK"


def _set(**values: str) -> Case:
    return case(variables={name: {"value": value} for name, value in values.items()})


@check(
    "MACH004",
    Severity.WARNING,
    needs=("machine.variables",),
    good=(
        _set(),
        _set(PYTORCH_TUNABLEOP_ENABLED="0"),
        _set(PYTORCH_TUNABLEOP_ENABLED="1", PYTORCH_TUNABLEOP_NUMERICAL_CHECK="1"),
    ),
    bad=(_set(PYTORCH_TUNABLEOP_ENABLED="1"),),
)
def tunableop(case: Case) -> Iterator[Finding]:
    """TunableOp is off, or compares what it chooses with a reference.

    Why: TunableOp replaces GEMMs by whichever candidate is fastest, and does not look at numbers
    unless it is asked to. Candidates that drop alpha, give NaN or are far off were reported, and
    its choice differs from run to run, so that results do too.
    Fix: `export PYTORCH_TUNABLEOP_NUMERICAL_CHECK=1` while it tunes; unset
    PYTORCH_TUNABLEOP_ENABLED where results are compared.
    Source: PyTorch, torch.cuda.tunable; ROCm/rocm-libraries issue 5111.
    """
    variables = case.value("machine.variables")

    def on(name: str) -> bool:
        return variables.get(name, {}).get("value", "0").strip().lower() in ("1", "true", "on")

    if on(_ON) and not on(_CHECK):
        yield Finding(
            f"{_ON} is on without {_CHECK}",
            (Evidence(_ON, variables[_ON]["value"], source="the environment"),),
            why="training and comparisons: a fast, wrong GEMM is chosen as gladly as a right one",
            fix=f"export {_CHECK}=1, or unset {_ON}",
        )
