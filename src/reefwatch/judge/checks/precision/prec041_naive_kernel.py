"""PREC041: no naive or generic kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import traces
from reefwatch.judge.traces import Row

_NAIVE: dict[str, Any] = {
    "name": "naive_conv_ab_nonpacked_fwd_ncdhw_ushort_double_ushort",
    "library": "miopen",
    "role": "conv",
    "naive": "yes",
    "matrix_core": "no",
    "op": "aten::miopen_convolution",
}


@check(
    "PREC041",
    Severity.ERROR,
    needs=("trace.kernels", "trace.products"),
    covers=traces.covers("naive", traces.products),
    doubt=traces.unnamed("naive", traces.products),
    good=(Case.of(traces.example(), **traces.FACTS),),
    bad=(
        Case.of(traces.example(), traces.example(**_NAIVE), **traces.FACTS),
        Case.of(
            traces.example(
                name="Cijk_Ailk_Bljk_BBS_BH_MT64x32x8_SE_ISA000_KLS",
                library="tensile",
                naive="yes",
                matrix_core="no",
            ),
            **traces.FACTS,
        ),
    ),
)
def naive_kernel(case: Case) -> Iterator[Finding]:
    """No matmul or convolution runs on a naive or generic kernel.

    By name: MIOpen's `naive_conv_*`, and Tensile kernels that were made for no instruction set
    (`ISA000`, `KLS`). One that appears in the first profiled step alone, while later steps do
    without, is MIOpen timing its solvers: it is told as a note.

    Why: where a library has no kernel of that kind for the card (bf16 convolutions and 3-d
    convolutions on gfx11 above all) it falls back to one that is correct and tens to thousands
    of times slower, without a word.
    Fix: try fp16 for that layer, another layout (`channels_last`), or padding of channels to a
    multiple of 8; a newer ROCm; for MIOpen `MIOPEN_FIND_MODE=NORMAL` once, so that it looks again.
    Source: https://github.com/ROCm/legacy-rocm-build/issues/5514,
    https://github.com/ROCm/MIOpen/issues/3860
    """
    whole = traces.total(case)
    every = sorted({step for row in traces.rows(case) for step in row["steps"]})
    slow = [row for row in traces.rows(case) if row["naive"] == "yes"]
    probes = [row for row in slow if _probe(row, every)]
    for group in traces.by_place([row for row in slow if row not in probes]):
        first = max(group, key=lambda row: row["seconds"])
        yield Finding(
            f"{first['op'] or 'an op'} ran on a {_kind(first)} kernel of {first['library']}",
            traces.told(group, whole, Grade.BY_NAME),
            traces.place(group),
            why="the library found no better kernel for this dtype and shape on this card",
            cost=traces.cost(group, whole),
            fix="try fp16 there, channels_last, or channels padded to a multiple of 8",
        )
    if probes:
        yield Finding(
            f"{len(probes)} naive kernels ran in the first profiled step alone",
            traces.told(probes, whole, Grade.RECALLED),
            why="MIOpen times its solvers, naive ones too, when it first meets a shape",
            cost=traces.cost(probes, whole),
            fix="profile after a warm-up",
        )


def _kind(row: Row) -> str:
    return "generic" if row["library"] == "tensile" else "naive"


def _probe(row: Row, every: list[int]) -> bool:
    return len(every) > 1 and row["steps"] == every[:1]
