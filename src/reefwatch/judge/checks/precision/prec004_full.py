"""PREC004: a full-precision run has no low-precision product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.dtypes import LOW
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import (
    FULL,
    claimed,
    compute_rows,
    covers,
    promise,
)

_ROW: dict[str, Any] = {
    "op": "aten.mm.default",
    "kind": "matmul",
    "in": ["f32", "f32"],
    "out": ["f32"],
    "module": "head",
    "file": "/model.py",
    "line": 3,
    "autocast": "off",
    "cause": None,
    "calls": 1,
    "flops": 4096,
}
_FLAGS = {"matmul.allow_tf32": False, "cudnn.allow_tf32": False}
_FACTS: dict[str, Any] = {
    "claim__precision": "fp32",
    "precision__compute": {"f32": 4096},
    "precision__flags": _FLAGS,
    "env__device": {"kind": "nvidia"},
}
_LOW = _ROW | {"in": ["bf16", "bf16"], "out": ["bf16"], "autocast": "bf16"}
_TF32 = _FLAGS | {"matmul.allow_tf32": True}


@check(
    "PREC004",
    Severity.ERROR,
    needs=("claim.precision", "precision.compute", "precision.flags"),
    when=(FULL,),
    covers=covers,
    good=(
        Case.of(Event("precision.op", _ROW, id="1"), **_FACTS),
        Case.of(
            Event("precision.op", _ROW, id="1"),
            **(_FACTS | {"claim__precision": "tf32", "precision__flags": _TF32}),
        ),
        Case.of(
            Event("precision.op", _ROW, id="1"),
            **(_FACTS | {"precision__flags": _TF32, "env__device": {"kind": "cpu"}}),
        ),
    ),
    bad=(
        Case.of(Event("precision.op", _LOW, id="1"), **_FACTS),
        Case.of(Event("precision.op", _ROW, id="1"), **(_FACTS | {"precision__flags": _TF32})),
    ),
)
def full_precision(case: Case) -> Iterator[Finding]:
    """Full precision: no product runs in fewer bits than claimed.

    Low-precision operands are seen at dispatch. TF32 is not a dtype: the operands stay fp32 and a
    flag lets the card round them; that the flag is on is told as a weaker finding, on NVIDIA only.

    Why: an autocast left on, a library that casts, or `allow_tf32` (on by default for convolutions)
    gives about three decimal digits where seven are claimed.
    Fix: leave the autocast region; `torch.backends.cuda.matmul.allow_tf32 = False` and
    `torch.backends.cudnn.allow_tf32 = False`, or claim `tf32`.
    Source: https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html
    """
    places: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    wide: set[str] = set()
    for row in compute_rows(case):
        if any(dtype in LOW for dtype in row["in"][:3]):
            places.setdefault((row["module"], row["file"], row["line"]), row)
        else:
            wide.add(row["kind"])
    for (module, file, line), row in places.items():
        yield Finding(
            f"{row['op']} ran in {row['in'][0]}",
            (Evidence("calls", row["calls"], source="dispatch"),),
            Place(module, row["op"], file, line),
            claimed=claimed(case),
            why="autocast was on" if row["autocast"] != "off" else "its operands were cast before",
            fix="leave the autocast region, or claim mixed precision",
        )
    if not promise(case).tf32:
        yield from _tf32(case, wide)


def _tf32(case: Case, wide: set[str]) -> Iterator[Finding]:
    flags: dict[str, Any] = case.value("precision.flags")
    device = case.known("env.device", {})
    if device.get("kind") != "nvidia":
        return
    for flag, kind in (("matmul.allow_tf32", "matmul"), ("cudnn.allow_tf32", "conv")):
        if flags.get(flag) is True and kind in wide:
            yield Finding(
                f"{flag} is on, so {kind} in fp32 may round its operands to TF32",
                (Evidence(flag, True, source="flag", grade=Grade.PREDICTED),),
                claimed=claimed(case),
                fix=f"set torch.backends.{flag.replace('matmul', 'cuda.matmul')} = False",
            )
