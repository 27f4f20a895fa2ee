"""What judging compiled code costs, and how many of its calls were judged for it.

One process compiles one model twice with the same weights: once plain, once through
`reefwatch.compile`. Training steps of both follow each other in the order ABBA. Then one call is
judged with its time taken: the original, float64 and the second runs of the compiled code.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from models import WORKLOADS, Training
from torch.nn import functional as F

import reefwatch
from reefwatch.api.compiled import _standing

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=["cnn", "transformer"])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [_about(given.device), "", *HEAD]
    for name in given.models:
        steady, judged = measured(name, given.device, given.pairs)
        lines.append(steady)
        told.append(judged)
        print(f"{steady}\n{judged}", file=sys.stderr, flush=True)
    lines += ["", *JUDGED, *told]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.write:
        kind = "cpu" if given.device == "cpu" else "nvidia"
        (RESULTS / f"{kind}-compile.md").write_text(text)


HEAD = [
    "| model | plain step, ms | guarded step, ms | guarded / plain, median of pairs | middle half "
    "| in CPU time | ratio of sums | judged / calls in these steps | exam, s | judged in it |",
    "| --- " * 10 + "|",
]
JUDGED = [
    "One judged call (inputs copied, original, gradients for two cotangents), against a compiled "
    "forward and backward pass:",
    "",
    "| model | compiled call, ms | judged as the guard does | with float64 | copies, MB |",
    "| --- " * 5 + "|",
]
told: list[str] = []


def _about(device: str) -> str:
    named = torch.cuda.get_device_name(0) if device != "cpu" else platform.processor() or "CPU"
    return (
        f"torch {torch.__version__}, Python {platform.python_version()}, {named}, "
        f"{torch.get_num_threads()} threads, load {_load()} at the start"
    )


def _load() -> str:
    return Path("/proc/loadavg").read_text().split()[0] if Path("/proc/loadavg").exists() else "?"


def _timed(step: Callable[[], Any], device: str) -> tuple[float, float]:
    """(wall seconds, CPU seconds of this thread) of one step, the device waited for."""
    wall, cpu = time.perf_counter(), time.thread_time()
    step()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - wall, time.thread_time() - cpu


def measured(name: str, device: str, pairs: int) -> tuple[str, str]:
    """The two rows of a model."""
    torch._dynamo.reset()
    plain, guarded = Training(WORKLOADS[name], device), Training(WORKLOADS[name], device)
    plain.model, original = torch.compile(plain.model), guarded.model
    guarded.model = reefwatch.compile(guarded.model, exam=60.0)
    guard = _standing[0][0]
    since = guard.spent, _judged(guard)
    for _ in range(4):  # compiled, and the calls of the exam judged
        plain.step()
        guarded.step()
    exam = guard.spent - since[0], _judged(guard) - since[1]
    before, calls = _judged(guard), _calls(guard)
    sides: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for turn in range(pairs):
        for side in (False, True) if turn % 2 else (True, False):
            sides[side].append(_timed((guarded if side else plain).step, device))
    ratios = sorted(g[0] / p[0] for g, p in zip(sides[True], sides[False], strict=True))
    quarter = len(ratios) // 4
    cpu = median(g[1] / p[1] for g, p in zip(sides[True], sides[False], strict=True))
    sums = sum(g[0] for g in sides[True]) / sum(p[0] for p in sides[False])
    steady = (
        f"| {WORKLOADS[name].about} | {1e3 * median(p[0] for p in sides[False]):.1f} "
        f"| {1e3 * median(g[0] for g in sides[True]):.1f} | {median(ratios):.3f} "
        f"| {ratios[quarter]:.3f} to {ratios[-quarter - 1]:.3f} | {cpu:.3f} | {sums:.3f} "
        f"| {_judged(guard) - before}/{_calls(guard) - calls} | {exam[0]:.1f} | {exam[1]} |"
    )
    return steady, one_judged(name, device, guarded, original)


def _judged(guard: Any) -> int:
    return sum(tally.count for tally in guard._tallies.values())


def _calls(guard: Any) -> int:
    return sum(use.calls for use in guard._uses.all)


def one_judged(name: str, device: str, training: Training, original: Any) -> str:
    """What a judged call takes, in multiples of a compiled forward and backward pass."""
    from reefwatch.gather.compiled.trial import RANDOM, SUM, Rules, Trial, judge

    inputs, targets = next(training.batches)
    use = _standing[0][0]._uses.all[-1]
    context = torch.autocast(torch.device(device).type, dtype=torch.bfloat16)

    def call() -> None:
        with context:
            out = use.compiled(inputs)
            loss = F.cross_entropy(out.flatten(0, -2), targets.flatten())
        loss.backward()

    once = median(_timed(call, device)[0] for _ in range(5))
    judging, wide, size = [], [], 0
    for _ in range(3):
        with context:
            begun = time.perf_counter()
            trial = Trial(use.function, (inputs,), {}, whole=True)
            seen = trial.observe(use.compiled(inputs), None)
            verdict = judge(trial, seen, use.again, Rules(), own_randomness=False)
            judging.append(time.perf_counter() - begun)
            assert not verdict.unproven and not verdict.differences, verdict
            size = verdict.bytes
            eager = trial.run(trial.function, (RANDOM, SUM))
            begun = time.perf_counter()
            assert trial.truth(eager, (RANDOM, SUM)) is not None, trial.truth_reason
            wide.append(time.perf_counter() - begun)
    needed = "" if verdict.referee == "not needed" else " (float64 was needed)"
    judged = median(judging)
    return (
        f"| {WORKLOADS[name].about} | {1e3 * once:.0f} | {judged / once:.1f}x{needed} "
        f"| {(judged + median(wide)) / once:.1f}x | {size / 1e6:.0f} |"
    )


if __name__ == "__main__":
    main()
