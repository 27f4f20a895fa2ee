"""PREC047: low-precision products on the matrix units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import traces
from reefwatch.judge.traces import LOW, Row

SMALL = Tolerance(
    0.01, "share of device time", "below a hundredth another kernel would not be noticed"
)
_VECTOR: dict[str, Any] = {
    "name": "Cijk_Ailk_Bljk_HHS_BH_MT32x32x8_SN_1LDSB0_ISA1100_KLA",
    "library": "tensile",
    "compute_dtype": "fp16",
    "matrix_core": "no",
    "in": ["f16", "f16"],
}


def _low(case: Case) -> list[Row]:
    return [row for row in traces.products(case) if traces.dtype_of(row)[0] in LOW]


@check(
    "PREC047",
    Severity.ERROR,
    needs=("trace.kernels", "trace.products"),
    covers=traces.covers("matrix_core", _low),
    doubt=traces.unnamed("matrix_core", _low),
    good=(
        Case.of(traces.example(), **traces.FACTS),
        Case.of(traces.example(), traces.example(**(_VECTOR | {"seconds": 1e-5})), **traces.FACTS),
    ),
    bad=(Case.of(traces.example(), traces.example(**_VECTOR), **traces.FACTS),),
)
def matrix_units(case: Case) -> Iterator[Finding]:
    """Matmul, convolution and attention in low precision run on the matrix units.

    By name: a kernel of bf16, fp16, fp8 or int8 products that uses neither WMMA, MFMA nor tensor
    cores. Products of a matrix and a vector are helpers of their own and not looked at. What a name
    does not tell (`triton_tem_*`, Winograd "Fury") is not counted against it.

    Why: the speed of low precision lies in the matrix units; on the vector units it is at best
    that of fp32.
    Fix: shapes whose sizes are multiples of 8 (16 on RDNA3); another BLAS library
    (`torch.backends.cuda.preferred_blas_library`); for convolutions channels_last.
    Source: https://github.com/pytorch/pytorch/issues/42311
    """
    whole = traces.total(case)
    vector = [row for row in _low(case) if row["matrix_core"] == "no"]
    for group in traces.by_place(vector):
        if SMALL.exceeded_by(traces.seconds(group) / whole):
            dtype = traces.dtype_of(group[0])[0]
            yield Finding(
                f"{group[0]['op'] or 'a product'} in {dtype} ran without the matrix units",
                traces.told(group, whole, Grade.BY_NAME),
                traces.place(group),
                why="the library chose a kernel of the vector units for this shape",
                cost=traces.cost(group, whole),
                fix="pad the sizes to multiples of 8, or try another BLAS library",
            )
