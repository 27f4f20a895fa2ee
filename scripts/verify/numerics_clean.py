"""Healthy runs: many models, seeds, dtypes, threads, layouts. Every finding is one too many.

Each run of a model and seed is watched with `--truth`, or follows a reference that was recorded
from the same model with another seed or thread count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numerics_faults import DTYPES
from numerics_jobs import each
from numerics_models import MODELS, borrowed

import reefwatch

OPTIMIZERS: tuple[Any, ...] = (
    lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9),
    lambda p: torch.optim.AdamW(p, 1e-3),
    lambda p: torch.optim.Adam(p, 1e-3, foreach=False),
    lambda p: torch.optim.RMSprop(p, 1e-3),
)
KINDS = ("fp32", "fp32", "bf16")


def train(
    make: Any, seed: int, dtype: str, steps: int = 3, last: bool = False, batches: int = 0
) -> None:
    """A few steps; `last` puts images into channels_last, `batches` seeds the data apart."""
    torch.manual_seed(seed)
    model = make()
    optimizer = OPTIMIZERS[seed % len(OPTIMIZERS)](model.parameters())
    torch.manual_seed(seed + 1000 + batches)
    if last:
        model = model.to(memory_format=torch.channels_last)
    low = dtype != "fp32"
    for _ in range(steps):
        x, y = model.batch()
        if last and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=DTYPES[dtype]) if low else nullcontext():
            loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def watched(run: Any, **asked: Any) -> tuple[list[str], dict[str, str]]:
    """(findings of the numerics contract, verdicts)."""
    with tempfile.TemporaryDirectory() as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watch = reefwatch.watch(exam=20, budget=0, out=out, **asked)
        with watch:
            run()
    ours = [o for o in watch.report.outcomes if o.contract == "numerics"]
    failed = [o.reason for o in watch.report.outcomes if o.code == "WATCH"]
    if failed:
        raise RuntimeError(failed[0])
    found = [f"{o.code} {f.message} [{f.place}]" for o in ours for f in o.findings]
    return found, {o.code: o.verdict.value for o in ours}


def runs(name: str, make: Any, seeds: range) -> Any:
    """(what is varied, findings, verdicts) of each run of a model."""
    scratch = Path(tempfile.mkdtemp())
    references: dict[Any, Path] = {}

    def reference(seed: int, dtype: str) -> Path:
        key = seed % len(OPTIMIZERS), dtype
        if key not in references:
            place = references[key] = scratch / f"{len(references)}"
            watched(lambda: train(make, seed, dtype), record=place)
        return references[key]

    for seed in seeds:
        dtype = KINDS[seed % len(KINDS)]
        turn = seed % 5
        if turn in (0, 1):
            yield f"truth {dtype}", *watched(partial(train, make, seed, dtype), truth=True)
            continue
        place = reference(seed, dtype)
        if turn == 2:
            other = seed + len(OPTIMIZERS) * 7  # the same optimizer
            yield (
                f"another seed {dtype}",
                *watched(partial(train, make, other, dtype), against=place),
            )
        elif turn == 3:
            torch.set_num_threads(2)
            try:
                yield (
                    f"2 threads {dtype}",
                    *watched(partial(train, make, seed, dtype), against=place),
                )
            finally:
                torch.set_num_threads(1)
        else:
            yield (
                f"channels_last {dtype}",
                *watched(partial(train, make, seed, dtype, last=True), truth=True),
            )


def _model(job: tuple[str, int]) -> list[Any]:
    """All runs of one model."""
    name, seeds = job
    torch.set_num_threads(1)
    return list(runs(name, {**MODELS, **borrowed()}[name], range(seeds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--models", nargs="+")
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    every = {**MODELS, **borrowed()}
    table: dict[str, Counter[str]] = {}
    wrong: list[str] = []
    jobs = [(name, given.seeds) for name in given.models or every]
    for (name, _), told in zip(jobs, each(_model, jobs), strict=True):
        for what, found, verdicts in told:
            row = table.setdefault(what, Counter())
            row["runs"] += 1
            row["findings"] += len(found)
            row["held"] += sum(said == "held" for said in verdicts.values())
            row["unproven"] += sum(said == "unproven" for said in verdicts.values())
            wrong += [f"{name}, {what}: {one}" for one in found]
        print(f"{name}: {len(wrong)} so far", file=sys.stderr, flush=True)
    count = sum(row["runs"] for row in table.values())
    print(f"{count} runs of {len(given.models or every)} models, {given.seeds} seeds each; ")
    print(f"{time.perf_counter() - began:.0f} s.\n")
    print("| run | runs | claims held | unproven | findings |\n| --- | --- | --- | --- | --- |")
    for what, row in sorted(table.items()):
        counts = " | ".join(str(row[part]) for part in ("runs", "held", "unproven", "findings"))
        print(f"| {what} | {counts} |")
    print()
    for line in wrong:
        print(f"- {line}")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
