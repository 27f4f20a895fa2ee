"""PREC043: attention on a fused kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import traces

MATH = "aten::_scaled_dot_product_attention_math"
SMALL = Tolerance(
    0.01, "share of device time", "below a hundredth another path would not be noticed"
)
_MATH: dict[str, Any] = {"attention": MATH, "op": "aten::bmm", "module": "Attention_0"}


@check(
    "PREC043",
    Severity.WARNING,
    needs=("trace.kernels",),
    when=("trace.attention",),
    good=(
        Case.of(traces.example(), **traces.FACTS),
        Case.of(traces.example(**(_MATH | {"seconds": 1e-5})), **traces.FACTS),
    ),
    bad=(Case.of(traces.example(**_MATH), **traces.FACTS),),
)
def attention_path(case: Case) -> Iterator[Finding]:
    """Scaled dot product attention runs on a fused kernel, not on the math path.

    The trace shows the op that attention was dispatched to; the math path is two products and a
    softmax over the whole matrix of scores.

    Why: flash and memory-efficient kernels are refused for fp32 operands (autocast off), a mask of
    another dtype than q, head sizes that are no multiple of 8, an unsupported card; the math path
    then keeps scores of T x T and takes several times as long.
    Fix: cast the mask to q's dtype or make it boolean; let autocast cover q, k and v; on ROCm
    set TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1 before the first call. Forcing
    `torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION)` around it raises with the reason.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """
    whole = traces.total(case)
    math = [row for row in traces.rows(case) if row["attention"] == MATH]
    for group in traces.by_place(math):
        if SMALL.exceeded_by(traces.seconds(group) / whole):
            yield Finding(
                f"attention took the math path, in {group[0]['phase'] or 'an unknown phase'}",
                traces.told(group, whole, Grade.MEASURED),
                replace(traces.place(group), op=MATH),
                why="no fused kernel takes these operands; the reason is said where one is forced",
                cost=traces.cost(group, whole),
                fix="force sdpa_kernel(SDPBackend.FLASH_ATTENTION) once to be told the reason",
            )
