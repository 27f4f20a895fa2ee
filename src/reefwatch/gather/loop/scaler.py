"""What a GradScaler does: is there one, for which dtype, how many updates does it skip?

A skipped update is seen without reading the device: `GradScaler.step` returned and no optimizer was
stepped. A fused optimizer is always stepped and skips by itself; there the flag that it is given
is read later, when it has arrived.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from reefwatch.core.dtypes import HALF
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.dtypes import short
from reefwatch.gather.guard import describe
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.deferred import Deferred
from reefwatch.gather.loop.unseen import aside
from reefwatch.gather.patches import Patches


class Scaler(Instrument):
    """Facts `loop.scaler`, `loop.scaler_dtype`, `loop.scaled`."""

    name = "loop.scaler"
    contract = "loop"
    wants_ops = True

    def __init__(self) -> None:
        self._patches = Patches()
        self._dtypes: set[str] = set()
        self._stepping = self._updated = False
        self._before = 0
        self._used = self._failed = False
        self._steps = self._skipped = self._initial = self._taken = 0
        self._scale: float | None = None
        self._least: float | None = None
        self._last: weakref.ref[Any] | None = None
        self._read = 0.0

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._flags = Deferred(tools.torch)
        self._scales = Deferred(tools.torch)
        kind = tools.torch.amp.GradScaler
        self._patches.observe(kind, "step", self._careful(self._begin), self._careful(self._end))

    def _careful(self, look: Callable[[Any], None]) -> Callable[[Any], None]:
        """Called inside the user's `scaler.step`, past the guard: what fails ends the looking."""

        def careful(scaler: Any) -> None:
            try:
                look(scaler)
            except Exception as error:
                self._patches.restore()
                value = describe(error, "GradScaler.step", -1)
                self._tools.sink.fact(
                    f"errored.{self.name}", Evidence(f"errored.{self.name}", value)
                )
                self._failed = True

        return careful

    def hears(self, func: Any, name: str, phase: str) -> bool:
        return phase != "backward"  # which has the state of its forward

    def on_op(self, call: Any) -> None:
        if call.autocast != "off":
            self._dtypes.add(call.autocast)

    def _begin(self, scaler: Any) -> None:
        self._stepping, self._updated = scaler.is_enabled(), False
        self._before = _stepped(scaler)

    def before_update(self, optimizer: Any, examined: bool) -> None:
        if not self._stepping:
            return
        self._updated = True
        param = next((p for g in optimizer.param_groups for p in g["params"]), None)
        half = short(getattr(param, "dtype", None))
        if half in HALF:
            self._dtypes.add(half)
        found = getattr(optimizer, "found_inf", None)
        if found is None:
            self._count(False)
        else:
            with aside(self._tools.torch):
                self._flags.push(found, None)

    def _end(self, scaler: Any) -> None:
        if not self._stepping:  # it was built with `enabled=False` and only passes through
            return
        self._stepping = False
        if not self._updated and _stepped(scaler) > self._before:
            self._count(True)
        if self._updated or _stepped(scaler) > self._before:
            self._used = True
            self._note_scale(scaler)

    def _count(self, skipped: bool) -> None:
        self._steps += 1
        self._skipped += skipped
        self._taken += not skipped
        if not self._taken:
            self._initial = self._skipped

    def _note_scale(self, scaler: Any) -> None:
        scale = getattr(scaler, "_scale", None)
        if scale is None:
            return
        self._last = weakref.ref(scaler)
        now = self._tools.clock()
        if scale.device.type == "cpu" or now - self._read > 1.0:
            self._read = now
            with aside(self._tools.torch):
                self._scales.push(scale, None)
        self._take()

    def _take(self) -> None:
        for _, found in self._flags.take():
            self._count(found != 0)
        for _, scale in self._scales.take():
            self._scale = scale
            self._least = scale if self._least is None else min(self._least, scale)

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        if self._used:
            self._take()

    def release(self) -> None:
        self._patches.restore()

    def disarm(self) -> None:
        self._patches.restore()
        scaler = self._last() if self._last is not None else None
        if scaler is not None:
            with aside(self._tools.torch):
                self._scales.push(scaler._scale, None)
                self._flags.flush()
                self._scales.flush()
        for deferred in (self._flags, self._scales):
            deferred._ready = deferred.finish()
        self._take()
        self.tell()

    def tell(self) -> None:
        if self._failed:
            return
        sink = self._tools.sink
        source = "GradScaler.step" if self._used else "GradScaler.step was not called"
        sink.fact("loop.scaled", Evidence("loop.scaled", self._used, source=source))
        dtype = min(self._dtypes, key=("f16", "bf16").index) if self._dtypes else None
        seen = Evidence("loop.scaler_dtype", dtype, source="autocast state and parameters")
        none = Unknown("no 16-bit autocast or parameter was seen in the examined steps")
        sink.fact("loop.scaler_dtype", none if dtype is None else seen)
        value = {
            "used": self._used,
            "dtype": dtype,
            "steps": self._steps,
            "skipped": self._skipped,
            "initial": self._initial,
            "scale": self._scale,
            "least": self._least,
        }
        sink.fact("loop.scaler", Evidence("loop.scaler", value, source="GradScaler"))


def _stepped(scaler: Any) -> int:
    """Optimizers that this scaler has stepped or skipped since its last update.

    Only looking `scaler.step` up, as `hasattr` does, does not change it.
    """
    states = getattr(scaler, "_per_optimizer_states", {})
    return sum(state["stage"].name == "STEPPED" for state in states.values())
