"""PREC044: convolutions without column buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import traces

SMALL = Tolerance(
    0.01, "share of device time", "below a hundredth another solver would not be noticed"
)
_COLUMNS: dict[str, Any] = {
    "name": "Im2d2Col_v2",
    "library": "miopen",
    "compute_dtype": "unknown",
    "role": "im2col",
    "matrix_core": "no",
    "op": "aten::miopen_convolution",
}


@check(
    "PREC044",
    Severity.ERROR,
    needs=("trace.kernels", "trace.products"),
    when=("trace.convolution",),
    good=(
        Case.of(traces.example(), **traces.FACTS),
        Case.of(traces.example(**(_COLUMNS | {"seconds": 1e-5})), **traces.FACTS),
    ),
    bad=(Case.of(traces.example(**_COLUMNS), **traces.FACTS),),
)
def column_buffers(case: Case) -> Iterator[Finding]:
    """No convolution falls back to column buffers and a matmul.

    By name: `Im2d2Col`, `Im3d2Col` and their ways back of MIOpen, `im2col` and `vol2col` of ATen.

    Why: MIOpen takes this path where it has no other solver of that dtype (bf16 on gfx11 has no
    Winograd), ATen where a convolution is grouped and dilated on ROCm. It writes each input several
    times over before the product starts; fp16 twins of the same layer can be six times faster.
    Fix: compare the layer in fp16; avoid groups with dilation; a newer ROCm may bring a solver.
    Source: https://github.com/ROCm/TheRock/issues/2591
    """
    whole = traces.total(case)
    columns = [row for row in traces.rows(case) if row["role"] == "im2col"]
    for group in traces.by_place(columns):
        if SMALL.exceeded_by(traces.seconds(group) / whole):
            yield Finding(
                f"{group[0]['op'] or 'a convolution'} went through column buffers",
                traces.told(group, whole, Grade.BY_NAME),
                traces.place(group),
                why="the library has no direct solver for this dtype and shape on this card",
                cost=f"{traces.cost(group, whole)}, the product not counted",
                fix="compare the layer in fp16, and without groups where it is dilated",
            )
