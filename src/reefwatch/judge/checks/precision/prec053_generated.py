"""PREC053: the products of compiled code have the claimed dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.dtypes import HIGH, LOW
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import claimed, promise

_LOW = {"files": 2, "read": 2, "products": {"bf16": 6}}
_BOTH = {"files": 2, "read": 2, "products": {"bf16": 6, "f32": 1}}


def _case(claim: str, told: dict[str, Any], dtype: str) -> Case:
    row = {"op": "aten.addmm", "dtype": dtype, "nodes": "z", "times": 1}
    return Case.of(
        Event("precision.generated", row, None, "0"),
        claim__precision=claim,
        precision__generated=told,
    )


def _coverage(case: Case) -> tuple[Coverage, ...]:
    told = case.known("precision.generated")
    if not told:
        return ()
    known = sum(n for dtype, n in told["products"].items() if dtype != "unknown")
    return (Coverage("products", known, sum(told["products"].values())),)


def _unsaid(case: Case) -> str:
    told = case.known("precision.generated")
    return "" if told and told["products"] else "the generated code calls no product by name"


@check(
    "PREC053",
    Severity.WARNING,
    needs=("claim.precision", "precision.generated"),
    when=("claim.precision=bf16-mixed|fp16-mixed|bf16|fp16|fp32|tf32", "precision.generated"),
    covers=_coverage,
    doubt=_unsaid,
    good=(
        _case("bf16-mixed", _LOW, "bf16"),
        _case("fp32", {**_LOW, "products": {"f32": 3}}, "f32"),
    ),
    bad=(
        _case("bf16", _BOTH, "f32"),
        _case("fp32", _LOW, "bf16"),
    ),
)
def generated_products(case: Case) -> Iterator[Finding]:
    """Products in the code that torch.compile generated have the claimed dtype.

    Reads the files that Inductor wrote: matrix products and convolutions that they hand to a
    library, by the dtype of their result, and Triton templates by that of their operands. The code
    tells neither what of it ran, nor whether autocast was meant to be on there: under a claim of
    mixed precision a finding is a note.

    Why: an upcast or a region without autocast is as easily lost inside compiled code as outside,
    and no hook of eager mode sees it.
    Fix: look for the value named in the finding; run with `TORCH_COMPILE_DISABLE=1` once, for its
    line and its cause.
    Source: https://docs.pytorch.org/docs/stable/torch.compiler_inductor_profiling.html
    """
    told: dict[str, Any] = case.value("precision.generated")
    wide = promise(case).compute != "f32"
    other = HIGH if wide else LOW
    rows = [e.data for e in case.rows("precision.generated") if e.data["dtype"] in other]
    if not rows:
        return
    named = "; ".join(
        f"{row['op'].removeprefix('aten.')} ({row['nodes'] or 'no name'})" for row in rows[:3]
    )
    total = sum(told["products"].values())
    count = sum(row["times"] for row in rows)
    dtypes = ", ".join(sorted({row["dtype"] for row in rows}))
    yield Finding(
        f"{count} of {total} products in compiled code are in {dtypes}: {named}",
        (
            Evidence(
                "products in generated code",
                told["products"],
                source="Inductor",
                grade=Grade.PREDICTED if promise(case).mixed else Grade.MEASURED,
            ),
        ),
        claimed=claimed(case),
        why="the operands were of that dtype when the code was compiled",
        fix="look for these values; run once with TORCH_COMPILE_DISABLE=1 for line and cause",
    )
