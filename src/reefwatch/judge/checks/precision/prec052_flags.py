"""PREC052: flags that would lower the claimed precision on a card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.precision_claims import claimed

_FACTS: dict[str, Any] = {
    "claim__precision": "fp32",
    "precision__flags": {"matmul.allow_tf32": False, "matmul.fp16_accumulation": False},
    "precision__autocast": {"devices": ["cpu"]},
}
_TF32 = {"precision__flags": {"matmul.allow_tf32": True}}
_SUMS = {"precision__flags": {"matmul.fp16_accumulation": True}}
_FP16 = {"claim__precision": "fp16-mixed"}


@check(
    "PREC052",
    Severity.NOTE,
    needs=("claim.precision", "precision.flags", "precision.autocast"),
    when=("claim.precision=fp32|fp16-mixed|fp16",),
    good=(
        Case.of(**_FACTS),
        Case.of(**(_FACTS | _SUMS)),
        Case.of(**(_FACTS | _TF32 | _FP16)),
        Case.of(**(_FACTS | _TF32 | {"precision__autocast": {"devices": ["cuda"]}})),
    ),
    bad=(Case.of(**(_FACTS | _TF32)), Case.of(**(_FACTS | _SUMS | _FP16))),
)
def flags(case: Case) -> Iterator[Finding]:
    """No flag is on that would lower the claimed precision on a card, though it has no effect here.

    Looks at runs whose products ran on the CPU: `allow_tf32` of matrix products under a claim of
    fp32, fp16 accumulation under one of fp16. On a card PREC004 and PREC050 look at the same flags.

    Why: the script is tried on a CPU, where nothing happens, and then runs on a card, which obeys.
    Fix: leave the flags as they are by default, or claim `tf32`.
    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html
    """
    told: dict[str, Any] = case.value("precision.flags")
    if "cuda" in case.value("precision.autocast").get("devices", ()):
        return
    full = case.value("claim.precision") == "fp32"
    flag = "matmul.allow_tf32" if full else "matmul.fp16_accumulation"
    if told.get(flag) is True:
        does = "round fp32 products to TF32" if full else "sum fp16 products in fp16"
        name = flag if full else "matmul.allow_fp16_accumulation"
        yield Finding(
            f"{flag} is on: no effect on this CPU, a card would {does}",
            (Evidence(flag, True, source="flag", grade=Grade.PREDICTED),),
            claimed=claimed(case),
            fix=f"set torch.backends.cuda.{name} = False",
        )
