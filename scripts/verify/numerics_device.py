"""The truth on whole training steps of real models on one device: coverage, margins, findings."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import reefwatch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from models import WORKLOADS, Training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=["cnn", "transformer"])
    parser.add_argument("--exam", type=float, default=60.0)
    parser.add_argument("--steps", type=int, default=6)
    given = parser.parse_args()
    broken = False
    head = "| model | distinct ops judged | calls | left out | seconds | findings | worst margins |"
    print(f"{head}\n| --- | --- | --- | --- | --- | --- | --- |")
    for name in given.models:
        for low in (True, False):
            broken |= one(name, given, low)
    raise SystemExit(broken)


def one(name: str, given: Any, low: bool) -> bool:
    training = Training(WORKLOADS[name], given.device, ddp=False)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        watch = reefwatch.watch(exam=given.exam, budget=0, truth=True, out=folder)
        with watch:
            for _ in range(given.steps):
                step(training, low)
        record = watch.report.records[0]
    fact = record.fact("numerics.truth")
    told = getattr(fact, "value", None)
    if told is None:
        print(f"| {name} | {fact} {[v for k, v in record.facts.items() if 'errored' in k]} |")
        return True
    rows = [event.data for event in record.events if event.kind == "numerics.op"]
    findings = [f for o in watch.report.outcomes if o.contract == "numerics" for f in o.findings]
    worst: Counter[str] = Counter()
    for row in rows:
        key = f"{row['op'].split('.')[1]} {row['dtype']}"
        worst[key] = max(worst[key], row["error"])
    words = ", ".join(f"{key} {value:.2f}" for key, value in worst.most_common(8))
    kind = "as asked" if low else "fp32"
    print(
        f"| {name} {kind} | {told['judged']} of {told['of']} | {told['calls']} | {told['left']} "
        f"| {told['seconds']:.1f} ({time.perf_counter() - began:.0f} in all) | {len(findings)} "
        f"| {words} |"
    )
    for finding in findings:
        print(f"- {finding.message} [{finding.place}]", file=sys.stderr)
    print(name, kind, told["unproven"], file=sys.stderr)
    return bool(findings)


def step(training: Training, low: bool) -> None:
    """`Training.step`, with or without its autocast region."""
    inputs, targets = next(training.batches)
    training.optimizer.zero_grad()
    kind = torch.device(training.device).type
    with torch.autocast(kind, dtype=torch.bfloat16) if low else contextlib.nullcontext():
        outputs = training.model(inputs)
        loss = F.cross_entropy(outputs.flatten(0, -2), targets.flatten())
    loss.backward()
    training.optimizer.step()


if __name__ == "__main__":
    main()
