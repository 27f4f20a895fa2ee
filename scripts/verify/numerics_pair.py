"""References recorded on one device and followed on another, both ways.

numerics_pair.py record DIR --device cuda
numerics_pair.py against DIR --device cpu

Following prints a row per model and dtype: how many rows were matched, the largest distance of the
first step, what was found; then the same with one kernel of this device made wrong.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
from numerics_faults import Fault, Site
from numerics_reference import Program, told, watched
from torch.utils._python_dispatch import TorchDispatchMode

from reefwatch.api import references
from reefwatch.store.bundle import Bundle

MODELS = ("cnn", "transformer", "rnn", "resnet", "vit", "llama")
STEPS = 3
WRONG = {
    "cnn": ("native_batch_norm", "cudnn_batch_norm"),
    "resnet": ("native_batch_norm", "cudnn_batch_norm"),
    "transformer": ("native_layer_norm",),
    "vit": ("native_layer_norm",),
    "rnn": ("tanh",),
    "llama": ("silu",),
}
"""The op that is made wrong: 1 % on one channel."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["record", "against"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--most", type=float, default=1e9, help="seconds")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # the reference is fp32 where it says so
    began, ok = time.perf_counter(), True
    if given.what == "against":
        print("| model | device | rows | largest distance | healthy | one kernel wrong |")
        print("| --- | --- | --- | --- | --- | --- |")
    for name in given.models:
        for dtype in given.dtypes:
            if time.perf_counter() - began > given.most:
                print(f"{name} {dtype}: no time left", file=sys.stderr)
                ok = False
                continue
            place = given.folder / f"{name}-{dtype}"
            if given.what == "record":
                record(name, dtype, place, given.device)
            else:
                ok &= follow(name, dtype, place, given.device)
            print(f"{name} {dtype}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    raise SystemExit(0 if ok else 1)


def record(name: str, dtype: str, place: Path, device: str) -> None:
    """A reference with the noise of one run that was moved by an ulp."""
    shutil.rmtree(place, ignore_errors=True)
    moved = place.with_name(f"{place.name}.noise1")
    watched(Program(name, dtype, device=device, steps=STEPS), place, record=place)
    watched(Program(name, dtype, device=device, steps=STEPS), moved, noise=1, record=moved)
    references._keep(place, {references.RERUN: [], "noise": [Bundle(moved)]})
    shutil.rmtree(moved)


def follow(name: str, dtype: str, place: Path, device: str) -> bool:
    """One row of the table."""
    report = watched(Program(name, dtype, device=device, steps=STEPS), place, against=place)
    record_ = report.records[0]
    found = told(report)
    fact = record_.fact("numerics.reference")
    rows: Any = getattr(fact, "value", {"rows": 0, "rows_of": 0})
    margins = [
        max(e.data["value"], e.data["slice"], e.data["norm"])
        for e in record_.events
        if e.kind == "reference.row" and "value" in e.data and e.data["step"] == 0
    ]
    words = f"| {name} {dtype} | {torch.device(device).type} "
    words += f"| {rows['rows']} of {rows['rows_of']} "
    words += f"| {max(margins, default=0):.2g} | {found or 'held'} "
    wrong = spoiled(name, dtype, place, device)
    named = any(bare(op) in WRONG[name] for _, _, op in wrong)
    words += f"| {'op named' if named else 'op NOT named'}: {sorted({c for c, *_ in wrong})} |"
    print(words, flush=True)
    return not found and named


def spoiled(name: str, dtype: str, place: Path, device: str) -> list[tuple[str, str, str]]:
    """What is found with one kernel of this device made wrong, by the reference and the truth."""
    op, shape = first(Program(name, dtype, device=device, steps=1), WRONG[name])
    key = "CUDA" if torch.device(device).type == "cuda" else "CPU"
    with Fault(Site(op, 0, shape, 1), "one channel 1 % off", 3, key):
        program = Program(name, dtype, device=device, steps=2)
        return told(watched(program, place, against=place, truth=True))


def bare(op: str) -> str:
    return op.removeprefix("aten.").partition(".")[0]


def first(program: Program, ops: tuple[str, ...]) -> tuple[str, tuple[int, ...]]:
    """Name and shape of the first output of one of these ops in this program."""
    found: list[tuple[str, tuple[int, ...]]] = []

    class Shapes(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
            out = func(*args, **(kw or {}))
            if bare(str(func)) in ops and not found:
                one = out[0] if isinstance(out, (tuple, list)) else out
                found.append((str(func), tuple(one.shape)))
            return out

    with Shapes():
        program.run()
    return found[0]


if __name__ == "__main__":
    main()
