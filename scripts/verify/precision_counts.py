"""Reefwatch's numbers for real models against counts made by other means, each in its own run.

python scripts/verify/precision_counts.py [--device cuda] [--full] [--models "LLaMA,ViT"]
"""

from __future__ import annotations

import argparse
import gc
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

import precision_real
from precision_real import REAL, Step

from reefwatch.core.fact import Evidence
from reefwatch.core.record import Case, Record
from reefwatch.gather.precision.examine import examine

FLOPS = 1e-9
"""Relative: both count whole numbers by the same definition."""
SAVED = 0.01
"""Of the bytes, per dtype."""
TIME = 0.05
"""Of the device time, in points of the share."""
UNEXPLAINED = 0.02
ROUNDS = 3
"""Profiles of each kind; the least of each op counts."""
HIGH = ("f32", "f64")


def unexplained(record: Record) -> tuple[float, float, int]:
    """Shares of fp32 bytes saved, and of fp32 bytes made by any op, without a cause; fp32 flops."""
    case = Case(record)
    saved = [e.data for e in case.rows("precision.saved_by") if e.data["dtype"] in HIGH]
    made = [e.data for e in case.rows("precision.op") if e.data["out"][:1] in (["f32"], ["f64"])]
    flops = sum(
        e.data["flops"]
        for e in case.rows("precision.op")
        if e.data["in"][:1] in (["f32"], ["f64"]) and e.data["cause"] is None
    )
    return _without(saved), _without(made), flops


def _least(records: list[Record]) -> list[tuple[dict, float]]:
    """Each row of `precision.launch` with its least time over the records."""
    rows: dict[str, list] = {}
    for record in records:
        for event in Case(record).rows("precision.launch"):
            rows.setdefault(event.id, []).append(event.data)
    return [(same[0], min(row["seconds"] for row in same)) for same in rows.values()]


def _without(rows) -> float:
    total = sum(row["bytes"] for row in rows)
    return sum(row["bytes"] for row in rows if row["cause"] is None) / total if total else 0.0


def compare(name: str, device: str, full: bool) -> tuple[list[str], list[str], list[str]]:
    """(the row of the table, that of the times, the bars that were missed)."""
    step = Step(name, device, full)
    step()
    whole, parts = precision_real.flops(step)
    truth = precision_real.saved(step)
    step()
    traces, records = [], []
    same: list[dict[str, float]] = []
    on_gpu = device != "cpu"

    def again(profile) -> None:
        same.append(precision_real.times([precision_real.read(profile, on_gpu)]))

    for _ in range(ROUNDS):  # in turn, so that other work on the machine meets both alike
        traces.append(precision_real.trace_of(step))
        records.append(
            examine(
                step,
                optimizers=[step.optimizer],
                claim="bf16-mixed",
                profiled=1,
                on_profile=again,
            )
        )
    apart, record = precision_real.times(traces), records[0]
    # on a CPU, where other work on the machine disturbs every run otherwise, the bar is on the
    # profile that was joined, read again by other means; kernels of a GPU take equally long
    trace = apart if on_gpu else same[0]
    seconds = _least(records if on_gpu else records[:1])
    counted, kept = record.facts["precision.compute"].value, record.facts["precision.saved"].value
    time = record.facts["precision.time"]

    missed = []
    if abs(sum(counted.values()) - whole) > FLOPS * whole or counted != parts:
        missed.append(f"{name}: flops {counted}, by torch {parts}")
    for dtype in ("f32", "bf16"):
        ours, theirs = kept.get(dtype, 0), truth.get(dtype, 0)
        if abs(ours - theirs) > SAVED * max(theirs, sum(truth.values())):
            missed.append(f"{name}: saved {dtype} {ours}, by hooks {theirs}")
    by_saved, by_made, flops = unexplained(record)
    if by_saved > UNEXPLAINED or by_made > UNEXPLAINED or flops:
        missed.append(
            f"{name}: unexplained {by_saved:.1%} saved, {by_made:.1%} made, {flops} flops"
        )
    row = [
        name,
        f"{whole / 1e9:.2f} / {sum(counted.values()) / 1e9:.2f}",
        f"{counted.get('bf16', 0) / max(1, sum(counted.values())):.0%}",
        f"{truth.get('bf16', 0) / 2**20:.2f} / {kept.get('bf16', 0) / 2**20:.2f}",
        f"{truth.get('f32', 0) / 2**20:.2f} / {kept.get('f32', 0) / 2**20:.2f}",
        f"{by_saved:.2%}",
        f"{by_made:.2%}",
    ]
    if not isinstance(time, Evidence):
        missed.append(f"{name}: time is not known: {time.reason}")
        return row, [name, time.reason, "", "", "", ""], missed
    value = time.value
    total = sum(took for _, took in seconds)
    every = _least(records)
    least = sum(took for row, took in every if row["kind"] in ("matmul", "conv"))
    least /= sum(took for _, took in every)
    products = sum(took for row, took in seconds if row["kind"] in ("matmul", "conv")) / total
    casts = sum(took for row, took in seconds if row["kind"] == "cast") / total
    wide = [(row, took) for row, took in seconds if row["dtype"] in HIGH]
    lost = sum(took for row, took in wide if row["cause"] is None) / total
    for what, ours, theirs in (
        ("products", products, trace["products"]),
        ("casts", casts, trace["casts"]),
    ):
        if abs(ours - theirs) > TIME:
            missed.append(f"{name}: {what} {ours:.1%} of the time, by the trace {theirs:.1%}")
    if lost > UNEXPLAINED:
        missed.append(f"{name}: {lost:.1%} of the time is fp32 without a cause")
    fp32 = sum(took for _, took in wide) / total
    times = [
        name,
        f"{trace['products']:.1%} / {products:.1%}",
        f"{trace['casts']:.1%} / {casts:.1%}",
        f"{trace['seconds'] * 1e3:.1f} / {total * 1e3:.1f}",
        f"{apart['products']:.1%} / {least:.1%}",
        f"{fp32:.1%}",
        f"{lost:.2%}",
        f"{value['joined']:.1%}",
    ]
    return row, times, missed


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def counts(names: list[str], device: str, full: bool) -> tuple[str, list[str]]:
    """The section of the page, and the bars that were missed."""
    rows, times, missed = [], [], []
    for name in names:
        print(f"counts: {name}", file=sys.stderr)
        row, time, wrong = compare(name, device, full)
        rows.append(row)
        times.append(time)
        missed += wrong
        gc.collect()
    first = table(
        [
            "model",
            "Gflop, torch / ours",
            "of it bf16",
            "MiB saved in bf16, hooks / ours",
            "in fp32, hooks / ours",
            "fp32 saved without a cause",
            "fp32 made without a cause",
        ],
        rows,
    )
    second = table(
        [
            "model",
            "products, trace / ours",
            "casts, trace / ours",
            "ms of ops, trace / ours",
            "products, another run / ours, the least of three each",
            "in fp32",
            "fp32 without a cause",
            "ops joined",
        ],
        times,
    )
    where = (
        "of a run without Reefwatch"
        if device != "cpu"
        else "of the same profile (on two cores with other work, shares of two runs differ by more "
        "than any method does; those of another run stand beside, without a bar)"
    )
    text = (
        "One step each, forward, backward and AdamW, bf16 autocast, random weights. Every count "
        "comes from a run of its own: flops from torch's FlopCounterMode, saved bytes from "
        "saved_tensors_hooks (parameters and buffers left out).\n\n"
        f"{first}\n\nShares of the device time, from the trace file {where}:\n\n{second}\n"
    )
    return text, missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true", help="sizes for a GPU")
    parser.add_argument("--models", default="", help="words that the names hold")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    wanted = [word for word in asked.models.split(",") if word]
    names = [n for n in REAL if not wanted or any(word in n for word in wanted)]
    text, missed = counts(names, asked.device, asked.full)
    print(text)
    print("Missed: " + ("; ".join(missed) if missed else "none"))
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
