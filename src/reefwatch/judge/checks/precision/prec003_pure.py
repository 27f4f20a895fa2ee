"""PREC003: a pure low-precision run has nothing in fp32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.dtypes import HIGH
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import (
    PARAMS,
    PURE,
    claimed,
    compute_rows,
    covers,
    high,
    mib,
    outer_product,
)

_ROW: dict[str, Any] = {
    "op": "aten.mm.default",
    "kind": "matmul",
    "in": ["f32", "f32"],
    "out": ["f32"],
    "module": "head",
    "file": "/model.py",
    "line": 3,
    "phase": "forward",
    "cause": None,
    "calls": 1,
    "flops": 4096,
    "bytes": 128,
}
_LOW = {"in": ["bf16", "bf16"], "out": ["bf16"]}
_STATE = {"param": {"bf16": 1000}, "grad": {}, "optimizer": {}}
_FACTS: dict[str, Any] = {
    "claim__precision": "bf16",
    "precision__compute": {"bf16": 4096},
    "precision__state": _STATE,
}


@check(
    "PREC003",
    Severity.ERROR,
    needs=("claim.precision", "precision.compute", "precision.state"),
    when=(PURE,),
    covers=covers,
    good=(
        Case.of(Event("precision.op", _ROW | _LOW, id="1"), **_FACTS),
        Case.of(Event("precision.op", _ROW | {"flops": 64}, id="1"), **_FACTS),
    ),
    bad=(
        Case.of(Event("precision.op", _ROW, id="1"), **_FACTS),
        Case.of(
            **(_FACTS | {"precision__state": {"param": {"f32": 1000}, "grad": {}, "optimizer": {}}})
        ),
    ),
)
def pure_precision(case: Case) -> Iterator[Finding]:
    """Pure 16-bit: parameters and all products have the claimed dtype.

    `bf16` or `fp16` without `-mixed` promises that the weights themselves are in 16 bits and
    that no product runs in fp32. The weights that are looked at are those that an optimizer holds.

    Why: one submodule that was left out of `model.to(dtype)`, or an `.float()` before a layer,
    keeps fp32 weights or runs fp32 products, and the memory and speed of the claim are not had.
    Fix: convert the whole module (`model.to(torch.bfloat16)`), or claim `bf16-mixed`.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to
    """
    params: dict[str, int] = case.value("precision.state")["param"]
    total = sum(params.values())
    wide = sum(size for dtype, size in params.items() if dtype in HIGH)
    if total and PARAMS.exceeded_by(wide / total):
        yield Finding(
            f"{wide / total:.0%} of the parameter bytes are fp32",
            (Evidence("fp32 parameters", wide, "bytes"),),
            claimed=claimed(case),
            cost=f"{mib(wide / 2)} more than in 16 bits",
            fix="convert the whole module, or claim mixed precision",
        )
    places: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for row in compute_rows(case):
        if high(row) and not outer_product(row):
            places.setdefault((row["module"], row["file"], row["line"]), row)
    for (module, file, line), row in places.items():
        yield Finding(
            f"{row['op']} ran in {row['in'][0]}",
            (Evidence("calls", row["calls"], source="dispatch"),),
            Place(module, row["op"], file, line),
            claimed=claimed(case),
            why=row["cause"] or "",
            fix="keep its operands in the claimed precision",
        )
