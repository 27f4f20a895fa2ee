"""MACH071: what the target has no hardware or kernels for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, known, shown


def _case(gfx: str, **row: Any) -> Case:
    base = {"fp8": "ocp", "attention": "kernels", "matrix": ["bf16", "f16"], "family": "RDNA3"}
    return case(GPU | {"gfx": gfx}, targets={gfx: base | row})


_UNTOLD = ("", "unknown")


def _doubt(case: Case) -> str:
    rows = case.value("machine.targets")
    found = sorted({g for gpu in shown(case) if (g := known(gpu["gfx"]))})
    lost = [gfx for gfx in found if not rows.get(gfx) or rows[gfx]["family"] in _UNTOLD]
    return f"{', '.join(lost)} is in no table of this version" if lost else ""


@check(
    "MACH071",
    Severity.NOTE,
    when=(AMD,),
    needs=("machine.targets", "machine.gpus"),
    doubt=_doubt,
    good=(_case("gfx1201"),),
    bad=(
        _case("gfx1100", fp8="none"),
        _case("gfx942", fp8="fnuz"),
        _case("gfx1030", attention="none"),
        _case("gfx1030", matrix=[]),
    ),
)
def gates(case: Case) -> Iterator[Finding]:
    """The card has matrix units, FP8 and attention kernels as most code expects them.

    These are notes: properties of the card, not faults of the machine.

    Why: FP8 code that uses the other encoding scales wrongly (240 and 448 are the largest values);
    without attention kernels torch takes the slow path that needs memory for the whole matrix.
    Fix: `torch.finfo(dtype).max` in place of 448; bf16 where there is no FP8; on a card without
    attention kernels smaller batches or sequence tiling.
    Source: gpus.toml (precision-support.rst), rocm.toml (AOTriton).
    """
    for gfx in sorted({g for gpu in shown(case) if (g := known(gpu["gfx"]))}):
        row = case.value("machine.targets").get(gfx)
        if not row or row["family"] in _UNTOLD:  # in no table: an empty field is not a "no"
            continue
        evidence = (Evidence(gfx, dict(row), source="gpus.toml, rocm.toml", grade=Grade.BY_NAME),)
        if row["fp8"] == "none":
            yield Finding(f"{gfx} has no FP8 in hardware", evidence,
                          why="FP8 training and inference are emulated or refused")  # fmt: skip
        elif row["fp8"] == "fnuz":
            yield Finding(f"{gfx} has FP8 of the FNUZ encoding: 240 is its largest e4m3 value",
                          evidence, fix="torch.finfo(dtype).max, not 448")  # fmt: skip
        if row["attention"] == "none":
            what = f"AOTriton has no attention kernels for {gfx}, and torch takes the math path"
            yield Finding(what, evidence, why="long sequences: memory grows with their square")
        if not row["matrix"]:
            yield Finding(f"{gfx} has no matrix unit: bf16 products run through f32", evidence,
                          why="training: bf16 and fp16 save memory, and not much time")  # fmt: skip
