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
_MEDIUM = _FLAGS | {"mkldnn.matmul.fp32_precision": "bf16"}
_ON_CPU: dict[str, Any] = _FACTS | {
    "env__device": {"kind": "cpu"},
    "precision__autocast": {"devices": ["cpu"]},
}
XF32 = "MI3"
"""In the names of AMD's cards that have matrix units for TF32 (CDNA3)."""


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
        Case.of(
            Event("precision.op", _ROW | {"kind": "conv"}, id="1"),
            **(_ON_CPU | {"precision__flags": _MEDIUM}),
        ),
    ),
    bad=(
        Case.of(Event("precision.op", _LOW, id="1"), **_FACTS),
        Case.of(Event("precision.op", _ROW, id="1"), **(_FACTS | {"precision__flags": _TF32})),
        Case.of(Event("precision.op", _ROW, id="1"), **(_ON_CPU | {"precision__flags": _MEDIUM})),
    ),
)
def full_precision(case: Case) -> Iterator[Finding]:
    """Full precision: no product runs in fewer bits than claimed.

    Low-precision operands are seen at dispatch. TF32 is not a dtype: the operands stay fp32 and a
    flag lets the library round them. That a flag is on is told as a weaker finding, where it is
    obeyed: TF32 on NVIDIA and on AMD's MI300 family, oneDNN's bf16 on the CPU.

    Why: an autocast left on, a library that casts, or `allow_tf32` (on by default for convolutions)
    gives about three decimal digits where seven are claimed. On a CPU with 16-bit units,
    `torch.set_float32_matmul_precision("medium")` rounds the operands of all products to bf16.
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
    yield from _lowered(case, wide, promise(case).tf32)


def _lowered(case: Case, wide: set[str], tf32: bool) -> Iterator[Finding]:
    """Flags that let a library round the operands of an fp32 product, where it obeys them."""
    flags: dict[str, Any] = case.value("precision.flags")
    devices = case.known("precision.autocast", {}).get("devices", ("cpu", "cuda"))
    device = case.known("env.device", {})
    card = "cuda" in devices and (
        device.get("kind") == "nvidia" or (device.get("kind") == "amd" and XF32 in device["name"])
    )
    for flag, kind in (("matmul.allow_tf32", "matmul"), ("cudnn.allow_tf32", "conv")):
        if card and not tf32 and flags.get(flag) is True and kind in wide:
            yield _flag(
                case,
                f"{flag} is on, so {kind} in fp32 may round its operands to TF32",
                (flag, True),
                f"set torch.backends.{flag.replace('matmul', 'cuda.matmul')} = False",
            )
    for kind in ("matmul", "conv"):
        flag = f"mkldnn.{kind}.fp32_precision"
        value = flags.get(flag)
        if "cpu" in devices and kind in wide and value == "bf16":
            yield _flag(
                case,
                f"{flag} is {value}, so {kind} in fp32 on the CPU may round its operands to it",
                (flag, value),
                f"set torch.backends.{flag} = 'ieee'; for products, "
                "torch.set_float32_matmul_precision('highest') does it too",
            )


def _flag(case: Case, message: str, flag: tuple[str, Any], fix: str) -> Finding:
    evidence = Evidence(flag[0], flag[1], source="flag", grade=Grade.PREDICTED)
    return Finding(message, (evidence,), claimed=claimed(case), fix=fix)
