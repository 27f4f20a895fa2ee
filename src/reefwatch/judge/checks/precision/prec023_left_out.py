"""PREC023: no trained product is left outside the autocast region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import MIXED, claimed, compute_rows, covers, left_out

_ROW: dict[str, Any] = {
    "op": "aten.mm.default",
    "kind": "matmul",
    "in": ["f32", "f32"],
    "out": ["f32"],
    "module": "head",
    "file": "/model.py",
    "line": 9,
    "phase": "backward",
    "region": None,
    "cause": "autocast off",
    "calls": 2,
    "flops": 4096,
    "bytes": 128,
}
_FACTS: dict[str, Any] = {
    "claim__precision": "bf16-mixed",
    "precision__region": {"bf16": 4096},
    "precision__ops": {"steps": 1, "steps_of": 1, "modules_seen": 1, "modules_total": 1},
}


def _case(**changed: Any) -> Case:
    return Case.of(Event("precision.op", _ROW | changed, id="1"), **_FACTS)


@check(
    "PREC023",
    Severity.WARNING,
    needs=("claim.precision", "precision.ops", "precision.region"),
    when=(MIXED,),
    covers=covers,
    good=(_case(region="bf16"), _case(phase="forward"), _case(module=""), _case(flops=32)),
    bad=(_case(), _case(kind="conv")),
)
def outside(case: Case) -> Iterator[Finding]:
    """Every matmul and convolution of a module that is trained runs inside the autocast region.

    Looks at products in fp32 whose backward was seen and whose forward, in a module, was called
    outside every region, while others of the run were called inside one.

    Why: a part of the model that is called before the region is entered or after it is left, or in
    a region for another device type, trains in fp32 without a word, next to others that do not.
    Fix: put the call inside the region; where fp32 is meant, silence the code with the reason.
    Source: https://docs.pytorch.org/docs/stable/amp.html#torch.autocast
    """
    rows = list(compute_rows(case))
    total = sum(row["flops"] for row in rows) or 1
    places: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        if left_out(row):
            places.setdefault((row["module"], row["file"], row["line"]), []).append(row)
    for (module, file, line), group in places.items():
        share = sum(row["flops"] for row in group) / total
        yield Finding(
            f"{group[0]['op']} of a trained module ran in fp32, outside every autocast region",
            (
                Evidence("calls", sum(row["calls"] for row in group), source="dispatch"),
                Evidence("share of flops", share, "share"),
            ),
            Place(module, group[0]["op"], file, line),
            claimed=claimed(case),
            why="its forward was called where no region for its device was on",
            cost=f"{share:.1%} of the matmul and convolution flops, counting the backward alone",
            fix="call it inside the region",
        )
