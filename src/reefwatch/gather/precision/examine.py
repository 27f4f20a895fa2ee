"""One callable examined by the precision audit alone, without a watch around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reefwatch.core.fact import Evidence, Fact
from reefwatch.core.ports import Referee
from reefwatch.core.record import Event, Record
from reefwatch.gather.instrument import Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision.audit import PrecisionAudit
from reefwatch.gather.precision.launched import Launches, profiler, roots


class Memory:
    """A Sink that keeps everything."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.events: list[Event] = []

    def fact(self, name: str, fact: Fact) -> None:
        self.facts[name] = fact

    def event(
        self, kind: str, data: Mapping[str, Any], *, step: int | None = None, id: str | None = None
    ) -> None:
        self.events.append(Event(kind, dict(data), step, id))

    def tensor(self, name: str, raw: bytes, dtype: str, shape: tuple[int, ...]) -> None:
        raise NotImplementedError("the precision audit records no tensors")


def examine(
    step: Callable[[], object],
    *,
    optimizers: Iterable[Any] = (),
    claim: str = "",
    steps: int = 1,
    profiled: int = 0,
    referee: Referee | None = None,
    replay: Any = None,
    on_profile: Callable[[Any], None] | None = None,
) -> Record:
    """What the audit sees of `steps` calls of `step`. Raises what `step` raises, and Breach.

    `profiled` further steps are profiled, for what was launched. `replay` is the
    autocast policy of another device, when it is replayed here; `on_profile` is
    handed the profiler of each profiled step.
    """
    import torch

    memory = Memory()
    memory.fact("trainer.asked", Evidence("trainer.asked", False, source="a step alone"))
    options: dict[str, Any] = {"claim": claim} if claim else {}
    if replay is not None:
        options["replay"] = replay
    tools = Tools(torch, memory, time.perf_counter, referee, options)
    audit = PrecisionAudit()
    audit.arm(tools)
    layer = OpLayer(tools, [audit])
    try:
        for optimizer in optimizers:
            audit.on_optimizer(optimizer)
        if claim:
            memory.fact("claim.precision", Evidence("claim.precision", claim, source="--claim"))
        launches = Launches()
        for number in range(steps):
            audit.trail = [] if profiled else None
            audit.open(number)
            layer.enter(number)
            try:
                step()
            finally:
                layer.leave()
            for optimizer in optimizers:
                audit.after_update(optimizer, True)
            audit.close(number)
            audit.on_step(number, 0.0, True)
        for _ in range(profiled):  # without the op layer, which slows small ops down
            on_gpu = torch.cuda.is_initialized()
            with profiler(torch, on_gpu, on_profile is not None) as profile:
                step()
            if on_profile is not None:
                on_profile(profile)
            launches.add(audit.trail or (), roots(profile), on_gpu)
        if profiled:
            launches.write(memory)
    finally:
        audit.disarm()
    return Record({"rank": 0, "world": 1}, memory.facts, tuple(memory.events))
