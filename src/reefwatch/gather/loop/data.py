"""Does each step see new data? Sums of the bits of what the root module is called with."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from reefwatch.core.fact import Evidence, Json, Unknown
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.bits import fingerprints
from reefwatch.gather.loop.place import outermost_call
from reefwatch.gather.loop.unseen import plain

WALKS = 32
"""Ops with a parameter per step at which the root call is looked up."""
CALLS = 4
"""Calls of one module per step that are compared."""
LARGEST = 1 << 24
"""Elements of an input that are summed."""


class _Root:
    """What one root module was called with in its first calls of each examined step."""

    def __init__(self, module: Any) -> None:
        self.ref = weakref.ref(module)
        self.name = type(module).__name__
        self.step = -2
        self.now: list[Any] = []
        self.last: list[Any] | None = None
        """Of the step before; None when that was not examined."""
        self.same = False
        self.shape: list[int] = []
        self.steps = self.pairs = self.repeats = 0

    def note(self, step: int, seen: tuple[Any, ...]) -> None:
        """Only neighbouring steps are compared: steps an epoch apart may well see the same."""
        if step != self.step:
            self.last, self.now = (self.now if step == self.step + 1 else None), []
            self.step, self.same = step, self.last is not None
            self.steps += 1
            self.pairs += self.same
            self.repeats += self.same
        self.now.append(seen)
        if self.same and self.last is not None and self.now != self.last[: len(self.now)]:
            self.same = False
            self.repeats -= 1


class Data(Instrument):
    """Facts `loop.data`, `loop.batched`."""

    name = "loop.data"
    contract = "loop"
    wants_ops = True

    def __init__(self) -> None:
        self._roots: dict[int, _Root] = {}
        self._done: dict[int, list[weakref.ref[Any]]] = {}
        self._walks = WALKS
        self._step = 0
        self._updating = self._closure = self._trains = False

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._torch = tools.torch
        self._kind = tools.torch.nn.Parameter
        self._entry = tools.torch.nn.Module._call_impl.__code__

    def open(self, step: int) -> None:
        self._step = step
        self._walks = 0
        self._done = {}

    def hears(self, func: Any, name: str, phase: str) -> bool:
        return phase not in ("backward", "optimizer")

    def on_op(self, call: Any) -> None:
        if self._walks >= WALKS:
            return
        if any(type(arg) is self._kind for arg in call.args) and self._torch.is_grad_enabled():
            self._walks += 1
            frame = outermost_call(self._entry)
            if frame is not None:
                local = frame.f_locals
                self._fingerprint(local.get("self"), local.get("args"), local.get("kwargs"))

    def _fingerprint(self, module: Any, args: Any, kwargs: Any) -> None:
        tensors = list(_tensors((args, kwargs)))[:8]
        if module is None or not self._is_next(module, tensors):
            return
        if not all(plain(self._torch, t) for t in tensors):
            return  # one that cannot be read may be the one that changes
        parts = [t if t.numel() <= LARGEST else _part(t) for t in tensors]
        prints = fingerprints(self._torch, parts)
        if None in prints:
            return
        seen = tuple(
            (tuple(t.shape), str(t.dtype), bits) for t, bits in zip(tensors, prints, strict=True)
        )
        root = self._roots.get(id(module))
        if root is None or root.ref() is not module:  # an id may be used again
            root = self._roots[id(module)] = _Root(module)
        root.shape = list(tensors[0].shape)
        root.note(self._step, seen)

    def _is_next(self, module: Any, tensors: list[Any]) -> bool:
        """True for one of the first calls of a module in this step that was not seen yet.

        More than the first: an episode that begins at the same place goes on elsewhere.
        """
        calls = self._done.setdefault(id(module), [])
        if not tensors or len(calls) == CALLS or any(call() is tensors[0] for call in calls):
            return False
        calls.append(weakref.ref(tensors[0]))
        return True

    def before_backward(self, loss: Any) -> None:
        self._closure |= self._updating

    def before_update(self, optimizer: Any, examined: bool) -> None:
        self._updating = True
        if not self._trains:  # until now each call of a module was a step
            self._trains = True
            self._roots.clear()
            self._done = {}

    def after_update(self, optimizer: Any, examined: bool) -> None:
        self._updating = False

    def disarm(self) -> None:
        self.tell()

    def tell(self) -> None:
        sink = self._tools.sink
        source = "an optimizer that calls a closure evaluates the same data again on purpose"
        batched = Evidence(
            "loop.batched", not self._closure, source=source if self._closure else ""
        )
        sink.fact("loop.batched", batched)
        compared = [root for root in self._roots.values() if root.pairs >= 2]
        if not compared:
            why = "fewer than three neighbouring examined steps called a module with tensors"
            sink.fact("loop.data", Unknown(why))
            return
        worst = max(compared, key=lambda root: (root.repeats / root.pairs, root.pairs))
        value: dict[str, Json] = {
            "steps": worst.steps,
            "pairs": worst.pairs,
            "repeats": worst.repeats,
            "module": worst.name,
            "shape": worst.shape,
        }
        sink.fact("loop.data", Evidence("loop.data", value, source="bits of the inputs"))


def _part(tensor: Any) -> Any:
    """A leading part of a very large tensor."""
    while tensor.numel() > LARGEST:
        half = len(tensor) // 2
        tensor = tensor[:half] if half else tensor[0]
    return tensor


def _tensors(value: Any) -> Iterator[Any]:
    if hasattr(value, "untyped_storage"):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
