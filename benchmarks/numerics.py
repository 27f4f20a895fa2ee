"""What recording a reference costs, paired in one run: steps of the ladder against those between.

Prints a row per model: the median time of recorded steps (2, 4, 8) over that of the plain steps
among them, the bytes of one recorded step besides weights and batches, and the share of all
elements that was read: for norms, and for the norms of slices. With `--clock cpu` the time is that
of this process's threads, which a busy machine does not disturb.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from models import WORKLOADS, Training, pictures, text

import reefwatch
from reefwatch.store.bundle import ROWS, Bundle

RECORDED, STEPS = (2, 4, 8), 10
BAR_TIME, BAR_BYTES = 1.3, 2e6
SMALLER = {"resnet50": pictures(96, 4), "llama": text(32000, 64, 1)}
"""Batches for a processor."""
SMALL = dict(SMALLER)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=["resnet50"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--pictures", nargs=2, type=int, metavar=("SIZE", "BATCH"))
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    given = parser.parse_args()
    clock = time.perf_counter if given.clock == "wall" else time.process_time
    if given.pictures:
        SMALLER["resnet50"] = pictures(*given.pictures)
    ok = True
    print(
        "| model | device | batch | plain step, s | recorded step, s | ratio "
        "| MB per step | rows | read for norms | for slices |"
    )
    print("| --- " * 10 + "|")
    for name in given.models:
        for _ in range(given.rounds):
            ok &= measured(name, given.device, clock)
    raise SystemExit(0 if ok else 1)


def measured(name: str, device: str, clock: Callable[[], float]) -> bool:
    load = WORKLOADS[name]
    if name in SMALLER and (device == "cpu" or SMALLER[name] is not SMALL[name]):
        load = dataclasses.replace(load, batch=SMALLER[name])
    training = Training(load, device)
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "ref")
        with reefwatch.watch(exam=0, budget=0, record=place, light=True, out=Path(folder, "out")):
            for _ in range(STEPS):
                begun = clock()
                training.step()
                if device != "cpu":
                    torch.cuda.synchronize()
                times.append(clock() - begun)
        head: Any = Bundle(place).head
        size = (place / ROWS).stat().st_size / len(head["steps"])
        rows = head["rows"] / len(head["steps"])
    batch = " x ".join(str(n) for n in next(training.batches)[0].shape)
    # what closes a step is done when its update ends, within the step's own time
    recorded = statistics.median(times[step] for step in RECORDED)
    plain = statistics.median(t for n, t in enumerate(times) if n > 2 and n not in RECORDED)
    ratio = recorded / plain
    words = f"| {name} | {torch.device(device).type} | {batch} "
    words += f"| {plain:.4f} | {recorded:.4f} | {ratio:.2f} "
    read = head["read"]
    words += f"| {size / 1e6:.2f} | {rows:.0f} | {read['norms']:.1%} | {read['slices']:.1%} |"
    print(words, flush=True)
    return ratio <= BAR_TIME and size <= BAR_BYTES


if __name__ == "__main__":
    main()
