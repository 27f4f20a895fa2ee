"""PREC042: fp32 operands are not computed in less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import traces
from reefwatch.judge.traces import Row

_CLAIM = {"claim__precision": "fp32"}
_TF32: dict[str, Any] = {
    "name": "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tensor16x8x8",
    "library": "cudnn",
    "compute_dtype": "tf32",
    "role": "conv",
    "op": "aten::cudnn_convolution",
    "in": ["f32", "f32"],
}


@check(
    "PREC042",
    Severity.ERROR,
    needs=("trace.kernels", "trace.products"),
    covers=traces.covers("compute_dtype", traces.products),
    doubt=traces.unnamed("compute_dtype", traces.products),
    good=(
        Case.of(traces.example(), **traces.FACTS),
        Case.of(traces.example(**_TF32), **(traces.FACTS | {"claim__precision": "tf32"})),
        Case.of(
            traces.example(compute_dtype="fp32", **{"in": ["f32", "f32"]}),
            **(traces.FACTS | _CLAIM),
        ),
    ),
    bad=(
        Case.of(traces.example(**_TF32), **(traces.FACTS | _CLAIM)),
        Case.of(traces.example(**_TF32), **traces.FACTS),
        Case.of(
            traces.example(compute_dtype="fp16", accumulate_dtype="fp16", **{"in": ["f16", "f16"]}),
            **traces.FACTS,
        ),
    ),
)
def lowered(case: Case) -> Iterator[Finding]:
    """No product is computed in less precision than its operands ask for.

    fp32 operands rounded to TF32 (xf32 on CDNA3), and fp16 products summed in fp16. Neither is a
    dtype that a program sees: only the kernel tells. A run that claims `tf32` asked for it.

    Why: cuDNN convolutions use TF32 by default (`torch.backends.cudnn.allow_tf32` is on), so a
    run "in fp32" computes its convolutions with 10 bits of mantissa; `set_float32_matmul_precision`
    in a library does the same for matmul; `allow_fp16_accumulation` sums in fp16.
    Fix: `torch.backends.cudnn.allow_tf32 = False`, `torch.backends.cuda.matmul.allow_tf32 = False`,
    `torch.backends.cuda.matmul.allow_fp16_accumulation = False`; or claim `tf32`.
    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    """
    whole = traces.total(case)
    said = str(case.known("claim.precision", "") or "")
    rounded = [row for row in traces.products(case) if _rounded(row)] if said != "tf32" else []
    summed = [row for row in traces.products(case) if _summed(row)]
    for some, what, flag in (
        (rounded, "fp32 operands were rounded to TF32", "allow_tf32"),
        (summed, "fp16 products were summed in fp16", "allow_fp16_accumulation"),
    ):
        for group in traces.by_place(some):
            conv = group[0]["role"] == "conv"
            setting = "cudnn.allow_tf32" if conv else f"cuda.matmul.{flag}"
            yield Finding(
                f"{what} in {group[0]['op'] or group[0]['role']}",
                (
                    *traces.told(group, whole, Grade.BY_NAME),
                    Evidence("operands", traces.operand(group[0]) or "unknown", source="profiler"),
                ),
                traces.place(group),
                claimed=f"{said}, by {case.evidence('claim.precision').source}" if said else "",
                why="cuDNN convolutions use TF32 unless told otherwise"
                if conv
                else "a flag allows it",
                cost=traces.cost(group, whole),
                fix=f"torch.backends.{setting} = False, or claim what is meant",
            )


def _rounded(row: Row) -> bool:
    return bool(row["compute_dtype"] == "tf32") and traces.operand(row) in ("", "fp32")


def _summed(row: Row) -> bool:
    return bool(row["compute_dtype"] == row["accumulate_dtype"] == "fp16")
