"""Speed of the virtual GPU, paired with Triton's interpreter on the survey kernels.

Needs the `triton` wheel and torch (CPU). Each kernel runs on the same arguments both ways, best of
several, after one run of each that warms up (compiling and translating included). Times are of
the processor, not of the clock: other work on the machine does not enter, and all is one thread.

Usage: python scripts/verify/kernels_speed.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "kernels"), str(ROOT / "src")]

import cases  # noqa: E402

from reefwatch import isa  # noqa: E402

WITHOUT = ("sort_f32",)


def interpret(rounds: int) -> None:
    """In a child with TRITON_INTERPRET=1: the best time of every kernel, as JSON lines."""
    import survey
    import torch

    torch.set_num_threads(1)
    for name in cases.CASES:
        kernel, signature, constants = survey.SPECS[name]
        case = cases.CASES[name](np.random.default_rng(5))
        kinds = list(signature.values())
        args = [tensor(a, k) if isinstance(a, np.ndarray) else a.value
                for a, k in zip(case.args, kinds, strict=True)]  # fmt: skip
        best = math.inf
        try:
            for _ in range(rounds):
                begun = time.process_time()
                kernel[case.grid](*args, **constants)
                best = min(best, time.process_time() - begun)
        except Exception as error:
            print(json.dumps([name, None, f"{type(error).__name__}: {error}"[:120]]), flush=True)
            continue
        print(json.dumps([name, best, ""]), flush=True)


def tensor(array: np.ndarray, kind: str):
    import torch

    if kind == "*bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def emulate(name: str, rounds: int, observers: tuple[str, ...]) -> float:
    import survey

    built = survey.build(name, "gfx1100", 4)
    case = cases.CASES[name](np.random.default_rng(5))
    program = isa.parse(built.asm["amdgcn"])
    best = math.inf
    for _ in range(rounds + 1):
        begun = time.process_time()
        result = isa.run(program, "gfx1100", case.grid, case.args, shared=built.metadata.shared,
                         observers=observers)  # fmt: skip
        best = min(best, time.process_time() - begun)
    assert result.ran and cases.worst(case, result.buffers[case.out]) <= 1
    return best


def big_matmul(rounds: int) -> float:
    import survey

    built = survey.build("matmul_f16", "gfx1100", 4)
    case = cases.matmul(np.random.default_rng(5), "f16", 512, 512, 256)
    program = isa.parse(built.asm["amdgcn"])
    best = math.inf
    for _ in range(rounds):
        begun = time.process_time()
        result = isa.run(program, "gfx1100", case.grid, case.args, shared=built.metadata.shared,
                         observers=())  # fmt: skip
        best = min(best, time.process_time() - begun)
    assert cases.worst(case, result.buffers[case.out]) <= 1
    return best


def mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--interpret", action="store_true")
    options = parser.parse_args()
    if options.interpret:
        interpret(options.rounds)
        return 0
    child = subprocess.run(
        [sys.executable, __file__, "--interpret", "--rounds", str(options.rounds)],
        env={**os.environ, "TRITON_INTERPRET": "1"}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    theirs = {name: (best, why) for name, best, why in map(json.loads, child.stdout.splitlines())}
    print("| kernel | interpreter ms | off ms | all observers ms | off x | all x |")
    print("|---|---|---|---|---|---|")
    off, full = [], []
    for name, (interpreted, why) in theirs.items():
        plain, watched = (emulate(name, options.rounds, o) for o in ((), tuple(isa.OBSERVERS)))
        if interpreted is None:
            print(f"| {name} | {why} | {plain * 1e3:.1f} | {watched * 1e3:.1f} | | |")
            continue
        ratios = plain / interpreted, watched / interpreted
        print(f"| {name} | {interpreted * 1e3:.1f} | {plain * 1e3:.1f} | {watched * 1e3:.1f} "
              f"| {ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True)  # fmt: skip
        if name not in WITHOUT:
            off.append(ratios[0])
            full.append(ratios[1])
    large = big_matmul(3)
    figures = [
        ("geometric mean, observers off", mean(off), 1.3),
        ("geometric mean, all observers", mean(full), 3.0),
        ("slowest kernel, observers off", max(off), 6.0),
        ("matmul f16 512x512x256, seconds", large, 1.5),
    ]
    print("\n| figure | measured | bar |\n|---|---|---|")
    for what, value, bar in figures:
        print(f"| {what} | {value:.2f} | {bar} |")
    return 0 if all(value <= bar for _, value, bar in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
