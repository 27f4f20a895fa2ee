"""PREC006: no silent promotion to fp32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import claimed, covers, mib, unentered

_ROW: dict[str, Any] = {
    "op": "aten.mul.Tensor",
    "kind": "other",
    "in": ["bf16", "f32"],
    "out": ["f32"],
    "module": "attention",
    "file": "/model.py",
    "line": 40,
    "phase": "forward",
    "region": "bf16",
    "cause": "type promotion",
    "origin": "aten.cos.default at /model.py:31",
    "calls": 2,
    "bytes": 4096,
}
_FACTS: dict[str, Any] = {
    "claim__precision": "bf16-mixed",
    "precision__region": {"bf16": 4096},
    "precision__ops": {"steps": 1, "steps_of": 1, "modules_seen": 1, "modules_total": 1},
}


@check(
    "PREC006",
    Severity.NOTE,
    needs=("claim.precision", "precision.ops"),
    when=("claim.precision=bf16-mixed|fp16-mixed|bf16|fp16",),
    covers=covers,
    doubt=unentered,
    good=(
        Case.of(Event("precision.op", _ROW | {"cause": "inherited"}, id="1"), **_FACTS),
        # a batch norm gives its result in bf16, and its statistics in fp32
        Case.of(Event("precision.op", _ROW | {"out": ["bf16", "f32", "f32"]}, id="1"), **_FACTS),
    ),
    bad=(Case.of(Event("precision.op", _ROW, id="1"), **_FACTS),),
)
def promotion(case: Case) -> Iterator[Finding]:
    """No 16-bit tensor is promoted to fp32 by meeting an fp32 one.

    Names the op, and the op or parameter that the fp32 operand came from.

    Why: bf16 with an fp32 tensor gives fp32: rotary tables, masks, an `arange`, a scale that is a
    1-element vector, an fp32 residual. What follows stays fp32 up to the next matmul.
    Fix: cast the fp32 operand once where it is made (`table.to(x.dtype)`); a Python number or a
    0-dimensional tensor does not promote.
    Source: https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
    """
    for event in case.rows("precision.op"):
        row = event.data
        if row["cause"] != "type promotion" or row["phase"] != "forward":
            continue
        if row["out"][:1] != ["f32"]:
            continue
        origin = row.get("origin") or "an fp32 operand"
        yield Finding(
            f"{row['op']} of {' and '.join(row['in'][:2])} gives {row['out'][0]}",
            (Evidence("fp32 bytes", row["bytes"], "bytes", "dispatch"),),
            Place(row["module"], row["op"], row["file"], row["line"]),
            claimed=claimed(case),
            why=f"the fp32 operand: {origin}",
            cost=f"{mib(row['bytes'])} in fp32",
            fix="cast the fp32 operand to the other's dtype where it is made",
        )
