"""PREC050: fp16 products summed in fp32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case

_FACTS: dict[str, Any] = {
    "precision__blas": {"half": True, "first": "cublas", "last": "cublas"},
    "precision__gates": {"flags": {"matmul.fp16_accumulation": False}},
}
_ON = {"precision__gates": {"flags": {"matmul.fp16_accumulation": True}}}


@check(
    "PREC050",
    Severity.ERROR,
    needs=("precision.blas", "precision.gates"),
    when=("precision.blas",),
    good=(
        Case.of(**_FACTS),
        Case.of(**(_FACTS | _ON | {"precision__blas": {"half": False}})),
    ),
    bad=(Case.of(**(_FACTS | _ON)),),
)
def half_sums(case: Case) -> Iterator[Finding]:
    """fp16 products are summed in fp32.

    Reads `torch.backends.cuda.matmul.allow_fp16_accumulation` at the end of examined steps in
    which fp16 products ran on a GPU.

    Why: sums kept in fp16 lose small addends and overflow at 65504. The flag is off by default; a
    library or an example that turns it on does so for the whole process.
    Fix: `torch.backends.cuda.matmul.allow_fp16_accumulation = False`.
    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html
    """
    flags: dict[str, Any] = case.value("precision.gates").get("flags", {})
    told: dict[str, Any] = case.value("precision.blas")
    if told.get("half") and flags.get("matmul.fp16_accumulation") is True:
        yield Finding(
            "allow_fp16_accumulation is on, and fp16 products ran",
            (Evidence("matmul.fp16_accumulation", True, source="flag", grade=Grade.PREDICTED),),
            fix="set torch.backends.cuda.matmul.allow_fp16_accumulation = False",
        )
