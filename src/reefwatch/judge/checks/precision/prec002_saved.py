"""PREC002: fp32 among what is saved for the backward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.dtypes import HIGH
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import (
    MIXED,
    claimed,
    covers,
    mib,
)

SHARE = Tolerance(
    1 / 3,
    "share of saved bytes",
    "with a third of the bytes in fp32 the memory saved is 40 %, where all in 16 bits would save "
    "50 %: the point where the claim's memory promise starts to fail",
)
FLOOR = Tolerance(2**20, "bytes", "less than 1 MiB of fp32 is not worth a change")
_NAMED = 3


def _by(module: str, size: int, cause: str | None, dtype: str = "f32") -> Event:
    data: dict[str, Any] = {
        "module": module,
        "dtype": dtype,
        "bytes": size,
        "op": "aten.native_group_norm.default",
        "cause": cause,
        "origin": "",
        "file": "/model.py",
        "line": 12,
    }
    return Event("precision.saved_by", data, id=f"{module} {dtype}")


_M = 2**20


def _too_little(case: Case) -> str:
    """Why a small model is not judged, when most of what it saves is fp32."""
    saved: dict[str, int] = case.value("precision.saved")
    total = sum(saved.values())
    wide = sum(size for dtype, size in saved.items() if dtype in HIGH)
    if not total or not SHARE.exceeded_by(wide / total) or FLOOR.exceeded_by(wide):
        return ""
    return f"{wide / total:.0%} of what is saved is fp32, but under 1 MiB: too little to judge"


@check(
    "PREC002",
    Severity.WARNING,
    needs=("claim.precision", "precision.saved"),
    when=(MIXED,),
    covers=covers,
    doubt=_too_little,
    good=(Case.of(claim__precision="bf16-mixed", precision__saved={"bf16": 9 * _M, "f32": _M}),),
    bad=(
        Case.of(
            _by("norm1", 6 * _M, "policy"),
            claim__precision="bf16-mixed",
            precision__saved={"bf16": 2 * _M, "f32": 6 * _M},
        ),
        Case.of(claim__precision="fp16-mixed", precision__saved={"f16": _M, "f32": 2 * _M}),
    ),
)
def saved_for_backward(case: Case) -> Iterator[Finding]:
    """What is saved for the backward is mostly in the claimed low precision.

    Counts the storages that forward ops made and that still live when the backward starts,
    parameters left out, each charged to the op that brought fp32 in (not to the ops after it).
    Under 1 MiB of fp32 is not judged.

    Why: flops in bf16 say almost nothing about memory. One norm or upsampling that autocast runs in
    fp32 makes everything after it fp32 up to the next matmul, and a run can save more than
    plain fp32 would while all its products run in bf16.
    Fix: cast the output of the named op back (`norm(x).to(x.dtype)`), keep the residual stream
    in low precision, or accept it and silence the code with the reason.
    Source: https://docs.pytorch.org/docs/stable/amp.html (ops that autocast to float32);
    measured shares per architecture in the project's verification tables.
    """
    saved: dict[str, int] = case.value("precision.saved")
    total = sum(saved.values())
    wide = sum(size for dtype, size in saved.items() if dtype in HIGH)
    if not total or not SHARE.exceeded_by(wide / total) or not FLOOR.exceeded_by(wide):
        return
    rows = [e.data for e in case.rows("precision.saved_by") if e.data["dtype"] in HIGH]
    rows = sorted(rows, key=lambda row: -row["bytes"])
    causes = "; ".join(
        f"{row['module'] or row['op']} {mib(row['bytes'])}"
        + (f" ({row['cause']})" if row["cause"] else "")
        for row in rows[:_NAMED]
    )
    yield Finding(
        f"{wide / total:.0%} of the bytes saved for the backward are fp32",
        (
            Evidence("fp32 saved for backward", wide, "bytes", "weak storage references"),
            Evidence("share", wide / total),
        ),
        _place(rows[0]) if rows else Place(),
        claimed=claimed(case),
        why=f"most of it comes from: {causes}" if causes else "",
        cost=f"{mib(wide)} a step, of which up to {mib(wide / 2)} would be saved in 16 bits",
        fix=_fix(rows),
    )


def _fix(rows: Sequence[Mapping[str, Any]]) -> str:
    """What can be done where the most was saved: a library's line is not the user's to change."""
    if rows and _library(rows[0]["file"]):
        called = f" (called at {rows[0]['caller']})" if rows[0].get("caller") else ""
        return (
            f"the line is a library's{called}: choose its sdpa or flash attention where it has "
            "the choice, or accept it and silence the code with the reason"
        )
    return "cast back after the named ops, or keep the stream between them in low precision"


def _library(file: str) -> bool:
    return "/site-packages/" in file or "/dist-packages/" in file


def _place(row: Mapping[str, Any]) -> Place:
    return Place(row["module"], row["op"], row["file"], row["line"])
