"""References recorded on one device and followed on another.

numerics_pair.py record DIR --device cuda
numerics_pair.py against DIR --device cpu
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from numerics_faults import MODELS, Fault, Site
from numerics_reference import Program, record, told, watched

WRONG = {
    "cnn": ("aten.native_batch_norm.default", "aten.cudnn_batch_norm.default"),
    "transformer": ("aten.native_layer_norm.default", "aten.native_layer_norm.default"),
    "rnn": ("aten.addmm.default", "aten.addmm.default"),
}
"""The op that is made wrong on the CPU side, with its name on both devices."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["record", "against"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # the reference is fp32 where it says so
    ok = True
    for name in MODELS:
        for dtype in ("fp32", "bf16"):
            place = given.folder / f"{name}-{dtype}"
            if given.what == "record":
                shutil.rmtree(place, ignore_errors=True)
                record(name, dtype, place, 2, given.device)
                print(f"{place}: recorded on {given.device}", file=sys.stderr)
            else:
                ok &= follow(name, dtype, place, given.device)
    raise SystemExit(0 if ok else 1)


def follow(name: str, dtype: str, place: Path, device: str) -> bool:
    """One row of the table: the healthy run, and one with a kernel made wrong (on the CPU)."""
    report = watched(Program(name, dtype, device=device), place, against=place)
    record_ = report.records[0]
    found = told(report)
    fact = record_.fact("numerics.reference")
    rows: Any = getattr(fact, "value", {"rows": 0, "rows_of": 0})
    margins = [
        max(e.data["value"], e.data["slice"], e.data["norm"])
        for e in record_.events
        if e.kind == "reference.row" and "value" in e.data and e.data["step"] == 0
    ]
    words = f"| {name} {dtype} on {device} | {rows['rows']} of {rows['rows_of']} rows "
    words += f"| {max(margins, default=0):.2g} | {found or 'held'} |"
    named = True
    if device == "cpu":
        step = Program(name, dtype)
        site = Site(WRONG[name][0], 0, shape(step, WRONG[name][0]), 1)
        with Fault(site, "one channel 1 % off", 3):
            wrong = told(watched(Program(name, dtype), place, against=place, truth=True))
        named = any(op in WRONG[name] for _, _, op in wrong)
        words += f" {wrong[:2]} |"
    print(words)
    return not found and named


def shape(program: Program, op: str) -> tuple[int, ...]:
    """The shape of the first output of an op in this program."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Shapes(TorchDispatchMode):
        found: tuple[int, ...] = ()

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
            out = func(*args, **(kw or {}))
            if str(func) == op and not Shapes.found:
                Shapes.found = tuple((out[0] if isinstance(out, tuple) else out).shape)
            return out

    with Shapes():
        program.run()
    return Shapes.found


if __name__ == "__main__":
    main()
