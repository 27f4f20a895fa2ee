"""PREC022: no upcast without a reason inside a low-precision region."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import MIXED, claimed, covers, mib, needless, unentered

_ROW: dict[str, Any] = {
    "op": "aten._to_copy.default",
    "kind": "cast",
    "in": ["bf16"],
    "out": ["f32"],
    "module": "block",
    "file": "/model.py",
    "line": 21,
    "caller": "",
    "phase": "forward",
    "region": "bf16",
    "cause": "explicit upcast",
    "feeds": ["add"],
    "calls": 1,
    "bytes": 4096,
}
_FACTS: dict[str, Any] = {
    "claim__precision": "bf16-mixed",
    "precision__region": {"bf16": 4096},
    "precision__ops": {"steps": 1, "steps_of": 1, "modules_seen": 1, "modules_total": 1},
}


def _case(**changed: Any) -> Case:
    return Case.of(Event("precision.op", _ROW | changed, id="1"), **_FACTS)


@check(
    "PREC022",
    Severity.NOTE,
    needs=("claim.precision", "precision.ops"),
    when=(MIXED,),
    covers=covers,
    doubt=unentered,
    good=(
        _case(feeds=["mul", "pow"]),
        _case(feeds=["_log_softmax"]),
        _case(region=None),
        _case(cause="policy"),
    ),
    bad=(_case(), _case(feeds=["_to_copy"]), _case(feeds=[])),
)
def upcast(case: Case) -> Iterator[Finding]:
    """An upcast written in a low-precision region serves a statistic, a softmax or a loss.

    Names each `.float()`, `.to(torch.float32)` and the like whose fp32 goes into none of these:
    into a product (which casts it back), an addition, an activation, or nothing.

    Why: in a norm or a softmax fp32 is wanted for the sums. Elsewhere the upcast costs a copy, all
    that follows it runs and is kept in fp32, and the next product casts it back.
    Fix: remove it, or cast back right after the part that wants fp32.
    Source: https://docs.pytorch.org/docs/stable/amp.html (op lists: which ops want fp32).
    """
    for event in case.rows("precision.op"):
        row = event.data
        if not needless(row):
            continue
        into = ", ".join(row["feeds"]) or "nothing"
        called = f", called at {row['caller']}" if row.get("caller") else ""
        yield Finding(
            f"{row['in'][0]} is cast to fp32 and goes into {into}",
            (Evidence("fp32 bytes", row["bytes"], "bytes", "dispatch"),),
            Place(row["module"], row["op"], row["file"], row["line"]),
            claimed=claimed(case),
            why=f"an upcast is written there{called}",
            cost=f"{mib(row['bytes'])} written in fp32, and what follows from it",
            fix="remove the upcast, or cast back right after what needs it",
        )
