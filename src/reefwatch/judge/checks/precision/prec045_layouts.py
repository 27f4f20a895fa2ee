"""PREC045: convolutions without transposes around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import traces
from reefwatch.judge.traces import Row

SHARE = Tolerance(
    0.05, "share of the time of convolutions", "transposes cost 5 to 35 % in public traces"
)
_LAYOUT: dict[str, Any] = {
    "name": "batched_transpose_32x32_half",
    "library": "miopen",
    "compute_dtype": "unknown",
    "role": "layout",
    "matrix_core": "no",
    "op": "aten::miopen_convolution",
}
_CONV: dict[str, Any] = {"role": "conv", "op": "aten::miopen_convolution", "library": "miopen"}


@check(
    "PREC045",
    Severity.ERROR,
    needs=("trace.kernels", "trace.products"),
    when=("trace.convolution",),
    good=(
        Case.of(traces.example(**_CONV), **traces.FACTS),
        Case.of(
            traces.example(**_CONV),
            traces.example(**(_LAYOUT | {"seconds": 1e-5})),
            **traces.FACTS,
        ),
    ),
    bad=(Case.of(traces.example(**_CONV), traces.example(**_LAYOUT), **traces.FACTS),),
)
def layouts(case: Case) -> Iterator[Finding]:
    """Convolutions run in the layout that they are given, without transposes around them.

    By name: `batched_transpose`, `transpose_NCHW2CNHW` of MIOpen, `nchwToNhwc` of cuDNN, inside
    convolution ops.

    Why: the fast kernels want channels last. Where the tensors are not, the library turns them
    before and after each convolution; on ROCm channels-last tensors are passed on to MIOpen only
    with PYTORCH_MIOPEN_SUGGEST_NHWC=1.
    Fix: `model.to(memory_format=torch.channels_last)` and the same for the input; on ROCm set
    PYTORCH_MIOPEN_SUGGEST_NHWC=1 before torch is imported.
    Source: https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
    """
    whole = traces.total(case)
    within = [row for row in traces.rows(case) if _in_convolution(row)]
    turning = [row for row in within if row["role"] == "layout"]
    share = traces.seconds(turning) / (traces.seconds(within) or 1.0)
    if SHARE.exceeded_by(share):
        yield Finding(
            f"{share:.0%} of the time of convolutions went into transposes around them",
            (
                *traces.told(turning, whole, Grade.BY_NAME),
                Evidence("share of the time of convolutions", share, "share", "profiler"),
            ),
            traces.place(turning),
            why="the tensors are not in the layout that the fast kernels want",
            cost=traces.cost(turning, whole),
            fix="use channels_last for model and input; on ROCm PYTORCH_MIOPEN_SUGGEST_NHWC=1",
        )


def _in_convolution(row: Row) -> bool:
    return "conv" in row["op"].lower() or (not row["op"] and row["role"] in ("conv", "layout"))
