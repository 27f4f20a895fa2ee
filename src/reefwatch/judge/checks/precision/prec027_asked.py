"""PREC027: the precision a trainer was asked for is the one it chose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case

_SAME = {
    "32": "32-true",
    "16": "16-mixed",
    "64": "64-true",
    "bf16": "bf16-mixed",
    "fp16": "16-mixed",
    "fp32": "32-true",
    "no": "32-true",
}


def _case(asked: str, chosen: str) -> Case:
    return Case.of(
        trainer__asked={"framework": "lightning"},
        trainer__precision={"asked": asked, "chosen": chosen},
    )


@check(
    "PREC027",
    Severity.ERROR,
    when=("trainer.asked",),
    needs=("trainer.asked", "trainer.precision"),
    good=(_case("bf16", "bf16-mixed"), _case("32", "32-true"), _case("16-mixed", "16-mixed")),
    bad=(_case("16-mixed", "bf16-mixed"), _case("64-true", "32-true")),
)
def asked(case: Case) -> Iterator[Finding]:
    """The precision a trainer was asked for is the one it chose.

    Compares the word in the script with the one that the trainer reports when training begins.

    Why: a trainer may choose another precision than the one asked for and say so in a warning
    alone: Lightning trains `precision="16-mixed"` on a CPU in bfloat16.
    Fix: ask for what the machine has, or choose the machine that has what is asked.
    Source: https://lightning.ai/docs/pytorch/stable/common/precision_basic.html
    """
    value: dict[str, Any] = case.value("trainer.precision")
    wanted, chosen = str(value["asked"]), str(value["chosen"])
    if _SAME.get(wanted, wanted) != _SAME.get(chosen, chosen):
        name = case.value("trainer.asked")["framework"]
        yield Finding(
            f"{name} was asked for {wanted} and trains in {chosen}",
            (Evidence("trainer.precision", chosen, source="the trainer's own precision"),),
            claimed=f"{wanted}, by the script",
            fix=f"ask for {chosen}, or train where {wanted} is supported",
        )
