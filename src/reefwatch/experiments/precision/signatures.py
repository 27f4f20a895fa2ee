"""Timing signatures: the costliest ops of a step, alone, in fp32, bf16 and fp16.

A ratio t(fp32) / t(16 bit) of about two is what half the bytes give, more is what matrix units
give; one is the same kernel or a hidden upcast; below one the low dtype is emulated, or runs on a
naive kernel. An experiment: it runs ops of its own, so it is only used where it is asked for.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.record import Record
from reefwatch.gather.instrument import Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision.costly import Costly, CostlyOps, Like
from reefwatch.gather.precision.examine import Memory

DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
ROUNDS = 11
SAMPLE = 0.002
"""Seconds that one sample takes at least: calls are repeated within it."""
FLOOR = 4.0
"""Times an empty op's time: an op below it in fp32 tells of launches, not of arithmetic."""
LONGEST = 3.0
"""Seconds that the rounds of one op take at most; three rounds are made in any case."""
Timer = Callable[[Callable[[], Any], int], float]
"""Seconds that `n` calls of a function take together, the device waited for."""


def run(
    step: Callable[[], object],
    *,
    top: int = 8,
    seconds: float = 30.0,
    rounds: int = ROUNDS,
    timer: Timer | None = None,
) -> Record:
    """Examine one call of `step`, then time its costliest ops; `precision.signature` events.

    `seconds` is what the timing may take in all; ops left over are counted in the fact.
    """
    import torch

    memory = Memory()
    collector = CostlyOps()
    tools = Tools(torch, memory, time.perf_counter, None, {})
    collector.arm(tools)
    layer = OpLayer(tools, [collector])
    layer.enter(0)
    try:
        step()
    finally:
        layer.leave()
    measure(torch, collector.top(top), memory, seconds=seconds, rounds=rounds, timer=timer)
    return Record({"rank": 0, "world": 1}, memory.facts, tuple(memory.events))


def measure(
    torch: Any,
    ops: Sequence[Costly],
    sink: Any,
    *,
    seconds: float = 30.0,
    rounds: int = ROUNDS,
    timer: Timer | None = None,
) -> None:
    """Write a `precision.signature` event for each op and the fact `precision.signatures`."""
    timer = timer or _timer(torch)
    begun, done = time.monotonic(), 0
    for number, op in enumerate(ops):
        if time.monotonic() - begun > seconds:
            break
        sink.event("precision.signature", signature(torch, op, timer, rounds), id=str(number))
        done += 1
    name = "precision.signatures"
    if not ops:
        sink.fact(name, Unknown("no op was seen that can be run again by its shapes"))
    else:
        sink.fact(name, Evidence(name, {"timed": done, "of": len(ops)}, source="timing"))


def signature(torch: Any, op: Costly, timer: Timer, rounds: int = ROUNDS) -> dict[str, Any]:
    """Median seconds and spread of one op by dtype, in turn; why a dtype cannot."""
    calls: dict[str, Callable[[], Any]] = {}
    errors: dict[str, str] = {}
    for dtype in DTYPES:
        call = _call(torch, op, dtype)
        try:
            call()
            calls[dtype] = call
        except (RuntimeError, NotImplementedError, TypeError) as error:
            errors[dtype] = str(error).splitlines()[0][:200] if str(error) else repr(error)
    repeat = {dtype: _repeat(call, timer) for dtype, call in calls.items()}
    once = sum(timer(call, repeat[dtype]) for dtype, call in calls.items())
    if once > 0:  # a dtype that is emulated may take seconds: it needs no precise time
        rounds = max(3, min(rounds, int(LONGEST / once)))
    samples: dict[str, list[float]] = {dtype: [] for dtype in calls}
    for _ in range(rounds):  # in turn, so that clocks and neighbours touch all alike
        for dtype, call in calls.items():
            samples[dtype].append(timer(call, repeat[dtype]) / repeat[dtype])
    medians = {dtype: statistics.median(some) for dtype, some in samples.items()}
    spreads = {dtype: spread(some) for dtype, some in samples.items()}
    full = medians.get("f32")
    nothing = torch.zeros(1, device=op.device)
    floor = statistics.median(timer(lambda: nothing + 1, 50) / 50 for _ in range(3))
    return {
        "op": op.name,
        "kind": op.kind,
        "shapes": op.shapes,
        "dtype": op.dtype,
        "device": op.device,
        "module": op.module,
        "file": op.file,
        "line": op.line,
        "calls": op.calls,
        "seconds": medians,
        "spread": spreads,
        "errors": errors,
        "ratio": {d: full / t for d, t in medians.items() if full and t and d != "f32"},
        "small": full is not None and full < FLOOR * floor,
    }


def spread(samples: Iterable[float]) -> float:
    """Half the distance between the quartiles, by the median."""
    some = sorted(samples)
    middle = statistics.median(some)
    if len(some) < 4 or not middle:
        return 0.0
    low, _, high = statistics.quantiles(some, n=4)
    return (high - low) / 2 / middle


def _call(torch: Any, op: Costly, dtype: str) -> Callable[[], Any]:
    """The op on random operands, its own dtype replaced by `dtype`."""
    args = [_made(torch, arg, op.dtype, dtype) for arg in op.args]

    def call() -> Any:
        with torch.no_grad():
            return op.func(*args)

    return call


def _made(torch: Any, arg: Any, own: str, dtype: str) -> Any:
    if not isinstance(arg, Like):
        return arg
    names = DTYPES | {"f64": "float64"}
    kind = getattr(torch, names.get(dtype if arg.dtype == own else arg.dtype, "float32"))
    # a generator of its own: the random state of the program stays
    generator = torch.Generator(device=arg.device)
    generator.manual_seed(0)
    made = torch.randn(arg.shape, generator=generator, device=arg.device).abs_().add_(0.1).to(kind)
    return made.to(memory_format=torch.channels_last) if arg.last else made


def _repeat(call: Callable[[], Any], timer: Timer) -> int:
    """How often a call is repeated so that a sample takes long enough to be timed."""
    timer(call, 2)
    once = timer(call, 2) / 2
    return max(1, min(2000, int(SAMPLE / once))) if once > 0 else 1


def _timer(torch: Any) -> Timer:
    """Wall time, with the device waited for where there is one."""
    wait = torch.cuda.synchronize if torch.cuda.is_initialized() else lambda: None

    def timed(call: Callable[[], Any], count: int) -> float:
        wait()
        begun = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        return time.perf_counter() - begun

    return timed
