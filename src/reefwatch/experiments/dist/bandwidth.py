"""algbw and busbw of each collective by size, as nccl-tests prints them; links of two ranks.

Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from reefwatch.experiments.dist.steps import Bench, Row, Step

SIZES = {"quick": (1 << 16, 1 << 20), "full": (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 26)}
"""Bytes, as nccl-tests counts them: of the larger of the two buffers."""
_GPU_SIZES = {"quick": (1 << 20, 1 << 26), "full": (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28)}
_SECONDS = {"quick": 0.05, "full": 0.2}
"""Time to spend on one size."""


def factor(form: str, world: int) -> float:
    """What algbw is multiplied by to give the busbw."""
    if form == "all_reduce":
        return 2 * (world - 1) / world
    return (world - 1) / world if form in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def steps(level: str, world: int, device: str) -> Iterator[Step]:
    """The cases of the phase `bandwidth`."""
    sizes = (SIZES if device == "cpu" else _GPU_SIZES)[level]
    for form in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"):
        for size in sizes:
            yield _step(form, size, level)
    for one in range(world):
        for other in range(one + 1, world):
            yield _pair(one, other, sizes[-1], level)


def _step(form: str, size: int, level: str) -> Step:
    def run(bench: Bench) -> Row:
        call = _call(bench, form, size)
        seconds = _timed(bench, call, f"{form}{size}", level)
        rate = size / seconds / 1e9
        return {
            "state": "right",
            "seconds": seconds,
            "algbw": rate,
            "busbw": rate * factor(form, bench.world),
        }

    return Step("bandwidth", f"{form} {size}", run, {"form": form, "bytes": size}, patience=2.0)


def _call(bench: Bench, form: str, size: int) -> Callable[[], Any]:
    count = max(1, size // 4 // bench.world) * bench.world
    whole = torch.ones(count, device=bench.device)
    share = torch.ones(count // bench.world, device=bench.device)
    gathered = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scattered = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    other = torch.empty_like(whole)
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(whole, dist.ReduceOp.MAX),
        "all_gather": lambda: gathered(other, share),
        "reduce_scatter": lambda: scattered(share, whole, dist.ReduceOp.MAX),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "reduce": lambda: dist.reduce(whole, 0, dist.ReduceOp.MAX),
        "all_to_all": lambda: dist.all_to_all_single(other, whole),
    }
    return calls[form]


def _timed(bench: Bench, call: Callable[[], Any], name: str, level: str) -> float:
    """Seconds of one call: the median here, the slowest rank's of all."""
    wait = (lambda: None) if bench.device == "cpu" else bench.torch.cuda.synchronize
    call()
    wait()
    begun = time.perf_counter()
    call()
    wait()
    guess = max(1e-6, time.perf_counter() - begun)
    told = bench.tell_all(f"guess/{name}", repr(guess))
    times = int(min(200, max(5, _SECONDS[level] / max(map(float, told)))))
    some = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        wait()
        some.append(time.perf_counter() - begun)
    each = bench.tell_all(f"time/{name}", repr(statistics.median(some)))
    return max(map(float, each))


def _pair(one: int, other: int, size: int, level: str) -> Step:
    """Both ways between two ranks; the others wait."""

    def run(bench: Bench) -> Row:
        tensor = torch.ones(size // 4, device=bench.device)

        def call() -> None:
            if bench.rank == one:
                dist.send(tensor, other)
                dist.recv(tensor, other)
            elif bench.rank == other:
                dist.recv(tensor, one)
                dist.send(tensor, one)

        seconds = _timed(bench, call, f"pair{one}-{other}", level) / 2
        return {
            "state": "right",
            "seconds": seconds,
            "algbw": size / seconds / 1e9,
            "busbw": size / seconds / 1e9,
        }

    about = {"form": "link", "bytes": size, "pair": [one, other]}
    return Step("bandwidth", f"link {one}-{other}", run, about, patience=2.0)
