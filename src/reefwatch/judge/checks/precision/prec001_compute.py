"""PREC001: matmul and convolution in the claimed precision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.dtypes import LOW
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import (
    MIXED,
    breaks_region,
    claimed,
    compute_rows,
    covers,
    high,
    promise,
)

_COMPILED = "compiled code ran it; who decided the dtype, the script or a kernel, was not seen"
Rows = list[Mapping[str, Any]]

_WHY = {
    "autocast off": "autocast was switched off there, inside the region",
    "inherited": "its operands were wide, and autocast does not cast fp64, out=, in-place forms, "
    "nor anything in a backward written in Python",
    None: "autocast did not apply there",
}


def _row(n: int, **changed: Any) -> Event:
    row: dict[str, Any] = {
        "op": "aten.addmm.default",
        "kind": "matmul",
        "in": ["bf16", "bf16", "bf16"],
        "out": ["bf16"],
        "module": "fc1",
        "file": "/train.py",
        "line": 7,
        "phase": "forward",
        "autocast": "bf16",
        "region": "bf16",
        "cause": None,
        "calls": 1,
        "flops": 4096,
        "bytes": 128,
    }
    return Event("precision.op", row | changed, id=str(n))


_FACTS: dict[str, Any] = {
    "claim__precision": "bf16-mixed",
    "precision__region": {"bf16": 1.0},
    "precision__ops": {"steps": 1, "steps_of": 1, "modules_seen": 1, "modules_total": 1},
}
_FP32: dict[str, Any] = {"in": ["f32"] * 3, "out": ["f32"], "autocast": "off"}
_OFF = _row(1, cause="autocast off", **_FP32)


def _doubt(case: Case) -> str:
    """Products in the other 16-bit dtype are no fp32, and not what is claimed either: PREC005."""
    wanted = promise(case).compute
    other = {d for row in compute_rows(case) if row["region"] for d in row["in"][:3] if d in LOW}
    other.discard(wanted)
    return f"products ran in {', '.join(sorted(other))}, where {wanted} is claimed" if other else ""


@check(
    "PREC001",
    Severity.ERROR,
    needs=("claim.precision", "precision.ops", "precision.region"),
    when=(MIXED,),
    covers=covers,
    doubt=_doubt,
    good=(
        Case.of(_row(1), **_FACTS),
        Case.of(_row(1), _row(2, module="head", **(_FP32 | {"region": None})), **_FACTS),
        Case.of(_row(1, cause="policy", **(_FP32 | {"autocast": "bf16"})), **_FACTS),
        Case.of(_row(1, flops=64, **(_FP32 | {"cause": "autocast off"})), **_FACTS),
    ),
    bad=(
        Case.of(_OFF, **_FACTS),
        Case.of(_row(1), _row(2, phase="backward", cause=None, **_FP32), **_FACTS),
        Case.of(_row(1, kind="conv", cause="autocast off", **_FP32), **_FACTS),
    ),
)
def compute_precision(case: Case) -> Iterator[Finding]:
    """Matmul and convolution run in the claimed low precision inside the autocast region.

    A mixed-precision run promises that its matrix products and convolutions, forward and
    backward, run in bf16 or fp16 where autocast is on. One that runs in fp32 there is named with
    its module, its op and the line that called it. fp32 outside any region is the script's own
    choice and is not looked at; so is what autocast's own lists decide, and an outer product
    (rotary position tables), where nothing is summed.

    Why: a layer can fall back to fp32 without a word: `autocast(enabled=False)` around it, a
    custom autograd.Function without `custom_fwd`, an `out=` form. The output is often cast back,
    so that no dtype outside the layer tells. It costs the matrix units' speed and twice the bytes.
    Fix: remove the nested `autocast(enabled=False)` or the `.float()` on the operands; decorate the
    Function's forward with `torch.amp.custom_fwd`; where fp32 is meant, leave the region for it
    or silence the code for that line with the reason.
    Source: https://docs.pytorch.org/docs/stable/amp.html (op lists, custom functions).
    """
    rows: Rows = list(compute_rows(case))
    total = sum(row["flops"] for row in rows) or 1
    broken: dict[tuple[str, str, int], Rows] = {}
    for row in rows:
        if breaks_region(row):
            broken.setdefault((row["module"], row["file"], row["line"]), []).append(row)
    for place, group in broken.items():
        yield _finding(case, place, group, total)
    # no forward op was seen for these: a thread of its own, or a step that was not examined
    lost = [row for row in rows if high(row) and row["phase"] == "backward" and not row["file"]]
    twice = [row for row in lost if row["cause"] == "double backward"]
    once = [row for row in lost if row["cause"] != "double backward"]
    taken: dict[tuple[str, str], Rows] = {}
    for row in once:
        taken.setdefault((row["module"], row.get("caller", "")), []).append(row)
    for (module, caller), group in taken.items():
        yield _lost(case, module, caller, group, total)
    if twice:
        yield _twice(case, twice, total)


def _finding(case: Case, place: tuple[str, str, int], group: Rows, total: int) -> Finding:
    module, file, line = place
    group = sorted(group, key=lambda row: (row["phase"] != "forward", -row["flops"]))
    first = group[0]
    calls = sum(row["calls"] for row in group)
    share = sum(row["flops"] for row in group) / total
    phases = " and ".join(dict.fromkeys(row["phase"] for row in group))
    ops = ", ".join(dict.fromkeys(row["op"] for row in group))
    compiled = bool(first.get("compiled"))
    grade = Grade.PREDICTED if compiled else Grade.MEASURED
    return Finding(
        f"{ops} ran in {first['in'][0]} inside a {first['region']} region, in {phases}",
        (
            Evidence("calls", calls, source="dispatch", grade=grade),
            Evidence("share of flops", share, "share", grade=grade),
        ),
        Place(module, first["op"], file, line),
        claimed=claimed(case),
        why=_COMPILED if compiled else _WHY.get(first["cause"], str(first["cause"])),
        cost=f"{share:.1%} of the matmul and convolution flops",
        fix="let autocast cover it, or leave the region where fp32 is meant",
    )


def _lost(case: Case, module: str, caller: str, rows: Rows, total: int) -> Finding:
    share = sum(row["flops"] for row in rows) / total
    file, _, line = caller.rpartition(":")
    taken = "; its result was taken here" if file else ""
    return Finding(
        f"{rows[0]['op']} ran in fp32 in backward, and its forward was not seen{taken}",
        (Evidence("share of flops", share, "share", grade=Grade.PREDICTED),),
        Place(module, rows[0]["op"], file, int(line) if file else 0),
        claimed=claimed(case),
        why="the forward ran in another thread, where autocast has to be entered anew, or before "
        "the examined step",
        cost=f"{share:.1%} of the matmul and convolution flops",
        fix="enter autocast in the thread that runs the forward",
    )


def _twice(case: Case, rows: Rows, total: int) -> Finding:
    """A note: the op is the backward of a backward, and its region cannot be told."""
    share = sum(row["flops"] for row in rows) / total
    return Finding(
        f"{rows[0]['op']} ran in fp32 in the backward of a backward (create_graph)",
        (Evidence("share of flops", share, "share", grade=Grade.RECALLED),),
        Place(op=rows[0]["op"]),
        claimed=claimed(case),
        why="its forward is itself a backward op, so whether that one belongs to an autocast "
        "region was not seen; outside of any, fp32 is right",
        cost=f"{share:.1%} of the matmul and convolution flops",
        fix="none where the penalty is computed outside autocast on purpose",
    )
