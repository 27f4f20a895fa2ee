"""PREC040: by the kernels, products in the claimed low precision."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import traces
from reefwatch.judge.precision_claims import claimed
from reefwatch.judge.traces import Row

_HIGH = ("fp32", "tf32", "fp64")
_FACTS: dict[str, Any] = traces.FACTS | {"claim__precision": "bf16-mixed"}
_FP32: dict[str, Any] = {
    "name": "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(...)",
    "library": "cutlass",
    "compute_dtype": "fp32",
    "matrix_core": "no",
    "in": ["f32", "f32"],
}


@check(
    "PREC040",
    Severity.ERROR,
    needs=("claim.precision", "trace.kernels", "trace.products"),
    when=("claim.precision=bf16-mixed|fp16-mixed|bf16|fp16",),
    covers=traces.covers("compute_dtype", traces.products),
    doubt=traces.unnamed("compute_dtype", traces.products),
    good=(
        Case.of(traces.example(), **_FACTS),
        # an outer product (rotary tables): nothing is summed
        Case.of(
            traces.example(),
            traces.example(**_FP32, op="aten::bmm", shapes="[1, 64, 1] x [1, 1, 9]", seconds=1e-4),
            **_FACTS,
        ),
    ),
    bad=(
        Case.of(traces.example(), traces.example(**_FP32), **_FACTS),
        Case.of(traces.example(), traces.example(**(_FP32 | {"in": []})), **_FACTS),
    ),
)
def kernel_dtype(case: Case) -> Iterator[Finding]:
    """The kernels of matmul, convolution and attention compute in the claimed low precision.

    Read from a profiler trace: the dtype of the op's operands where the trace was recorded with
    `record_shapes=True`, else what the kernel's name says (a weaker finding). An outer product,
    where nothing is summed, is not looked at.

    Why: a product in fp32 beside low-precision ones costs the matrix units' speed and twice the
    bytes: autocast left for one layer, an operand made by an fp32 op, a custom Function.
    Fix: look at the named line: let autocast cover it, or cast its operands once where they are
    made. Record with `record_shapes=True, with_stack=True, with_modules=True` to get the line.
    Source: https://docs.pytorch.org/docs/stable/amp.html; kernel names: docs/decisions (names).
    """
    whole = traces.total(case)
    wrong = [
        row for row in traces.products(case) if traces.dtype_of(row)[0] in _HIGH and not _outer(row)
    ]
    for group in traces.by_place(wrong):
        dtype, grade = traces.dtype_of(group[0])
        ran = f"{group[0]['op'] or 'a product'} ran in {dtype}"
        yield Finding(
            f"{ran}, in {group[0]['phase'] or 'an unknown phase'}",
            traces.told(group, whole, grade),
            traces.place(group),
            claimed=claimed(case),
            why="its operands are in that dtype"
            if grade is Grade.MEASURED
            else "the name of the kernel says so; the trace holds no dtypes of operands",
            cost=traces.cost(group, whole),
            fix="let autocast cover it, or cast the operands where they are made",
        )


def _outer(row: Row) -> bool:
    """True for `[..., m, 1] x [..., 1, n]`."""
    return row["op"] in ("aten::mm", "aten::bmm", "aten::matmul") and bool(
        re.match(r"\[(?:\d+, )*1\] x ", row["shapes"])
    )
