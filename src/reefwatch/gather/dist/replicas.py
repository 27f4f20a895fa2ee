"""Are the replicas equal, do the ranks see data of their own, did each take part in each sync?

Nothing is sent: each rank writes checksums of the same steps to its own record, and they are
compared when the records are read together (judge/ranks.py). A checksum that names a tensor is the
XOR of its bits; at powers of two it also knows positions.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.gather.dist import group
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.bits import fingerprints
from reefwatch.gather.loop.modules import Modules
from reefwatch.gather.loop.unseen import aside, dense, plain, together

_DENSE = 16
"""The first steps, all of which are looked at; then 4 of each doubling."""


def looked_at(step: int) -> bool:
    """True for the steps whose checksums are kept: the same on all ranks."""
    number = step + 1
    return number <= _DENSE or number % (1 << max(0, number.bit_length() - 3)) == 0


class Replicas(Instrument):
    """Fact `ranks.watched`; events `ranks.look`."""

    name = "dist.replicas"
    contract = "dist"

    def __init__(self) -> None:
        self._dist: Any = None
        self._step = 0
        self._optimizers: list[weakref.ref[Any]] = []
        self._tensors: dict[str, weakref.ref[Any]] = {}
        self._buffers: dict[str, weakref.ref[Any]] = {}
        self._known = -1
        self._wrapper = ""
        self._group: list[int] = []
        """Ranks that the wrapper keeps alike; empty where there is none."""
        self._broadcasts: bool | None = None
        self._sharded = self._looks = 0
        self._nested = False
        """One optimizer works within another: what the inner one did is not sent around yet."""
        self._due: tuple[int, int, Any] | None = None
        """Step, collectives and loss of a look that waits for the next backward."""
        self._loss: Any = None

    def arm(self, tools: Tools) -> None:
        self._tools, self._torch = tools, tools.torch

    def on_optimizer(self, optimizer: Any) -> None:
        self._optimizers.append(weakref.ref(optimizer))

    def before_update(self, optimizer: Any, examined: bool) -> None:
        if all(ref() is not optimizer for ref in self._optimizers):
            self._optimizers.append(weakref.ref(optimizer))  # it was made before the watch began

    def _several(self) -> bool:
        if self._dist is None:
            self._dist = group.module(self._torch)
        return self._dist is not None and self._dist.is_initialized()

    def before_backward(self, loss: Any) -> None:
        if self._due is not None:
            due, self._due = self._due, None
            self._look(*due)
        if self._loss is not None or not looked_at(self._step) or not self._several():
            return
        if plain(self._torch, loss) and loss.numel() == 1 and loss.is_floating_point():
            self._loss = loss.detach()

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        if looked_at(step) and self._several():
            if self._known != len(self._optimizers):
                self._known = len(self._optimizers)
                self._learn()
            due = step, group.issued(self._dist), self._loss
            if self._nested:  # ZeroRedundancyOptimizer broadcasts after its inner one
                self._due = due
            else:
                self._look(*due)
        self._loss, self._step = None, step + 1

    def _look(self, step: int, issued: int, loss: Any) -> None:
        tensors = {name: p for name, ref in self._tensors.items() if (p := ref()) is not None}
        buffers = {name: b for name, ref in self._buffers.items() if (b := ref()) is not None}
        exact = (step + 1) & step == 0
        with aside(self._torch):
            sums = self._sums({**tensors, **{f"buffer {n}": b for n, b in buffers.items()}}, exact)
            value = None if loss is None else float(loss.double().item()).hex()
        data = {
            "issued": issued,
            "loss": value,
            "exact": exact,
            "tensors": sums,
        }
        self._looks += 1
        self._tools.sink.event("ranks.look", {"step": step, **data}, step=step, id=str(step))
        if self._looks == 1:
            self.tell()

    def _sums(self, tensors: dict[str, Any], exact: bool) -> dict[str, str]:
        torch = self._torch
        parts = {n: p for n, t in tensors.items() if (p := dense(torch, t)) is not None}
        quick = getattr(torch, "hash_tensor", None)
        if exact or quick is None:
            each = fingerprints(torch, list(parts.values()))
            return {
                n: ":".join(f"{v & (2**64 - 1):x}" for v in two)
                for n, two in zip(parts, each, strict=True)
                if two is not None
            }
        made = {n: quick(p).view(torch.int64) for n, p in parts.items() if p.numel()}
        values = together(torch, list(made.values()))
        return {n: f"{int(v) & (2**64 - 1):x}" for n, v in zip(made, values, strict=True)}

    def _learn(self) -> None:
        """Names of the parameters and buffers, and how they lie on the ranks."""
        torch = self._torch
        params = [
            p
            for ref in self._optimizers
            if (optimizer := ref()) is not None
            for some in optimizer.param_groups
            for p in some["params"]
        ]
        self._nested = len(params) > len({id(param) for param in params})
        modules = Modules(torch)
        modules.learn(params)
        self._tensors, self._sharded = {}, 0
        self._wrapped()
        if self._wrapper == "FSDP2":
            with aside(torch):
                self._group = sorted({rank for param in params for rank in _mesh(param)})
        for number, param in enumerate(params):
            name = modules.name(param).removeprefix("module.") or f"parameter {number}"
            where = self._where(param)
            self._sharded += bool(where)
            self._tensors[name + where] = weakref.ref(param)
        self._buffers = {}
        for root in modules.roots:
            module = root.module()
            if module is None or self._wrapper != "DDP":
                continue
            for name, buffer in module.named_buffers():
                if buffer.is_floating_point():
                    self._buffers[name.removeprefix("module.")] = weakref.ref(buffer)

    def _wrapped(self) -> None:
        """Which wrapper the model is in: told by the living modules."""
        nn = self._torch.nn
        for thing in gc.get_objects():
            if not issubclass(type(thing), nn.Module):
                continue
            kind = type(thing).__name__
            if kind == "DistributedDataParallel":
                self._wrapper, self._broadcasts = "DDP", bool(thing.broadcast_buffers)
                self._group = self._members(thing)
                return
            if kind == "FullyShardedDataParallel":
                self._wrapper, self._group = "FSDP1", self._members(thing)
            elif kind.startswith("FSDP") and not self._wrapper:
                self._wrapper = "FSDP2"

    def _members(self, wrapper: Any) -> list[int]:
        """The ranks of a wrapper's process group; with HSDP of FSDP1 those of its shards."""
        of = getattr(wrapper, "process_group", None)
        try:
            return sorted(self._dist.get_process_group_ranks(of))
        except Exception:  # the group is gone, or another library's
            return []

    def _where(self, param: Any) -> str:
        """Which part of the parameter lies here: "" for the whole, else words that tell it."""
        placements = getattr(param, "placements", None)
        if placements is None:
            return f"@rank {self._dist.get_rank()}" if self._wrapper == "FSDP1" else ""
        mesh = param.device_mesh
        here = mesh.get_coordinate() or ()
        shards = [str(c) for c, p in zip(here, placements, strict=False) if not p.is_replicate()]
        return f"@shard {','.join(shards)}" if shards else ""

    def tell(self) -> None:
        several = self._looks > 0
        if not several:
            why = "no process group of several ranks trained here"
            self._tools.sink.fact("ranks.watched", Evidence("ranks.watched", False, source=why))
            return
        value: dict[str, Any] = {
            "wrapper": self._wrapper,
            "group": self._group,
            "looks": self._looks,
            "steps": self._step,
            "tensors": len(self._tensors),
            "sharded": self._sharded,
            "broadcast_buffers": self._broadcasts,
        }
        source = "checksums at the same steps of each rank"
        self._tools.sink.fact("ranks.watched", Evidence("ranks.watched", value, source=source))

    def disarm(self) -> None:
        self.tell()

    def release(self) -> None:
        self._loss = self._due = None


def _mesh(param: Any) -> list[int]:
    """The ranks over which a DTensor lies."""
    mesh = getattr(param, "device_mesh", None)
    return [] if mesh is None else [int(rank) for rank in mesh.mesh.flatten().tolist()]
