"""PREC007: fp32 master weights, cast once per region."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.dtypes import LOW
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import (
    MIXED,
    PARAMS,
    claimed,
    covers,
    mib,
    unentered,
)

_ROW: dict[str, Any] = {
    "op": "aten._to_copy.default",
    "kind": "cast",
    "in": ["f32"],
    "out": ["bf16"],
    "module": "cell",
    "file": "/model.py",
    "line": 40,
    "calls": 20,
    "recasts": 19,
    "bytes": 20 * 4096,
}


def _case(params: dict[str, int], recasts: int = 0) -> Case:
    return Case.of(
        Event("precision.op", _ROW | {"recasts": recasts}, id="1"),
        claim__precision="bf16-mixed",
        precision__region={"bf16": 4096},
        precision__ops={"steps": 1, "steps_of": 1, "modules_seen": 1, "modules_total": 1},
        precision__state={"param": params, "grad": {}, "optimizer": {}},
    )


@check(
    "PREC007",
    Severity.WARNING,
    needs=("claim.precision", "precision.ops", "precision.state"),
    when=(MIXED,),
    covers=covers,
    doubt=unentered,
    good=(_case({"f32": 1000}),),
    bad=(_case({"f32": 500, "bf16": 500}), _case({"f32": 1000}, recasts=19)),
)
def master_weights(case: Case) -> Iterator[Finding]:
    """Weights are kept in fp32 and cast once in each autocast region.

    Mixed precision keeps fp32 weights, and autocast keeps the 16-bit copy of a leaf weight that
    requires a gradient until the region ends.

    Why: an update smaller than half a unit in the last place of a bf16 weight (1/256 of its
    value) is lost. Weights that are not leaves, or need no gradient, are cast again in every
    call.
    Fix: load the model in fp32 and let autocast cast; leave `cache_enabled` on; cast frozen weights
    once by hand.
    Source: https://docs.pytorch.org/docs/stable/amp.html; Micikevicius and others, Mixed Precision
    Training, 2018, section 3.1 (https://arxiv.org/abs/1710.03740).
    """
    params: dict[str, int] = case.value("precision.state")["param"]
    total = sum(params.values())
    low = sum(size for dtype, size in params.items() if dtype in LOW)
    if total and PARAMS.exceeded_by(low / total):
        yield Finding(
            f"{low / total:.0%} of the parameter bytes are in 16 bits, without an fp32 copy",
            (Evidence("16-bit parameters", low, "bytes"),),
            claimed=claimed(case),
            cost="small updates are lost",
            fix="keep the parameters in fp32, or claim the pure precision",
        )
    for event in case.rows("precision.op"):
        row = event.data
        if not row.get("recasts"):
            continue
        size = row["bytes"] * row["recasts"] / row["calls"]
        yield Finding(
            f"a weight was cast again {row['recasts']} times in a region",
            (Evidence("recasts", row["recasts"], source="dispatch"),),
            Place(row["module"], row["op"], row["file"], row["line"]),
            claimed=claimed(case),
            why="autocast's cache is off, or the weight needs no gradient",
            cost=f"{mib(size)} written again",
            fix="leave autocast's cache on, or cast the weight once by hand",
        )
