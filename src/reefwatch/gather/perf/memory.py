"""Memory: allocated, reserved and peak, and the module that owns the peak."""

from __future__ import annotations

import resource
from collections import Counter
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.gather.host import Host, LiveHost
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.perf.cards import TorchDevice, torch_device
from reefwatch.gather.perf.cpu import resident

INTERVAL = 1.0
"""Seconds between looks at the allocator outside examined steps."""
OWNS = 0.9
"""The largest value seen at an op must reach this share of the peak for its module to own it."""


class Memory(Instrument):
    """Reads counters of the caching allocator; never resets one, never synchronises.

    On a GPU the owner is the module that ran when most was allocated, looked at whenever the module
    changes. On the CPU, which counts no bytes, it is the module whose op outputs are the most
    bytes alive when backward starts; they are followed by weak references to their storages.
    """

    name = "memory"
    contract = "perf"
    wants_ops = True

    def __init__(self, host: Host | None = None) -> None:
        self._host = host or LiveHost()
        self._tools: Tools | None = None
        self._device: TorchDevice | Unknown = Unknown("no step has ended yet")
        self._next = 0.0
        self._now = self._reserved = self._peak = 0
        self._retries = 0
        self._owner: tuple[int, str] | None = None
        self._module: str | None = None
        self._born: dict[int, tuple[str, int, Any]] = {}
        self._weak: Any = None
        self._examined = 0

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._next = tools.clock()
        self._weak = tools.torch.multiprocessing.reductions.StorageWeakRef

    def open(self, step: int) -> None:
        self._module = None
        self._examined += 1
        if self._tools is not None and isinstance(self._device, Unknown):
            self._device = torch_device(self._tools.torch)

    def hears(self, func: Any, name: str, phase: str) -> bool:
        if isinstance(self._device, TorchDevice):
            return True
        return phase == "forward" and _makes_storage(func)

    def on_op(self, call: Any) -> None:
        if not isinstance(self._device, TorchDevice):
            self._follow(call)
        elif call.module != self._module:
            self._module = call.module
            self._look(call.module)

    def before_backward(self, loss: Any) -> None:
        if not self._born:
            return
        alive: Counter[str] = Counter()
        for module, size, storage in self._born.values():
            if not storage.expired():
                alive[module] += size
        self._born.clear()
        if alive:
            module, size = alive.most_common(1)[0]
            if self._owner is None or size > self._owner[0]:
                self._owner = (size, module)

    def close(self, step: int) -> bool:
        self._born.clear()
        return False

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        tools = self._tools
        if tools is None or (tools.clock() < self._next and not examined):
            return
        if isinstance(self._device, Unknown):
            self._device = torch_device(tools.torch)
        if isinstance(self._device, TorchDevice):
            self._look(None)
        self._next = tools.clock() + INTERVAL

    def release(self) -> None:
        self._born.clear()

    def disarm(self) -> None:
        tools, self._tools = self._tools, None
        self._born.clear()
        if tools is None:
            return
        if isinstance(self._device, Unknown):
            self._device = torch_device(tools.torch)
        if isinstance(self._device, Unknown):
            tools.sink.fact("perf.memory", self._of_process())
            return
        self._tools = tools
        self._look(None)
        self._tools = None
        tools.sink.fact("perf.memory", self._of_gpu(self._device))

    def _look(self, module: str | None) -> None:
        """The allocator's counters: they live on the host, so nothing waits for the device."""
        assert self._tools is not None and isinstance(self._device, TorchDevice)
        stats = self._tools.torch.cuda.memory_stats_as_nested_dict(self._device.index)
        if not stats:
            return
        allocated = stats["allocated_bytes"]["all"]
        self._now = allocated["current"]
        if module is not None:
            if self._owner is None or self._now > self._owner[0]:
                self._owner = (self._now, module)
            return
        self._peak = max(self._peak, allocated["peak"])
        self._reserved = stats["reserved_bytes"]["all"]["current"]
        self._retries = stats.get("num_alloc_retries", 0)

    def _follow(self, call: Any) -> None:
        """Remember the storages that this op made, weakly."""
        for out in call.out if isinstance(call.out, (tuple, list)) else (call.out,):
            if not isinstance(out, self._tools.torch.Tensor):  # type: ignore[union-attr]
                continue
            try:
                storage = out.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
            except Exception:  # a sparse or wrapped tensor has no storage
                continue
            if size and key not in self._born:
                self._born[key] = (call.module, size, self._weak(storage))

    def _of_gpu(self, device: TorchDevice) -> Fact:
        size, owner = self._owner or (0, None)
        why = f"at op boundaries of {self._examined} examined steps"
        if owner is None:
            why = "no examined step ran on the GPU"
        elif size < OWNS * self._peak:
            owner, why = None, "the peak came outside the examined steps, or inside one op"
        value = {
            "allocated": self._now,
            "reserved": self._reserved,
            "peak": self._peak,
            "owner": owner,
            "owner_bytes": size or None,
            "retries": self._retries,
            "device": device.name,
        }
        return Evidence("perf.memory", value, "bytes", f"torch's allocator; owner: {why}")

    def _of_process(self) -> Fact:
        now = resident(self._host)
        if isinstance(now, Unknown):
            return now
        size, owner = self._owner or (0, None)
        why = f"most bytes of op outputs alive at backward, of {self._examined} examined steps"
        if owner is None:
            why = "not known: no examined step had a backward with op outputs alive"
        value = {
            "allocated": int(now),
            "reserved": None,
            "peak": max(int(now), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024),
            "owner": owner,
            "owner_bytes": size or None,
            "retries": None,
            "device": "cpu",
        }
        return Evidence("perf.memory", value, "bytes", f"resident set of the process; owner: {why}")


def _makes_storage(func: Any) -> bool:
    """False for a view or an op that writes into its input: the bytes are not its own."""
    mutable = getattr(getattr(func, "_schema", None), "is_mutable", False)
    return not mutable and not getattr(func, "is_view", False)
