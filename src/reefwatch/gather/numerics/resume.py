"""One row per update: all that a training goes on from, as it is when the update begins.

Used by `resume-check` in runs of its own (experiments/numerics), which it ends where it was told.
It only reads: of the run it changes no bit, only the moment of its end.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.modules import Modules
from reefwatch.gather.numerics import state
from reefwatch.gather.numerics.externals import Storages
from reefwatch.gather.numerics.saves import Saves
from reefwatch.gather.numerics.sketch import digest
from reefwatch.gather.patches import Patches

FORWARD = "forward"


class States(Instrument):
    """Events `resume.state`, `resume.save` and `resume.set`.

    Of the plan: `until` is the number of updates before which the process ends, None for its own
    end; `saved` ends it before the update that follows the first checkpoint; `full` names the
    updates whose values are told one by one.
    """

    name = "numerics.resume"
    contract = "numerics"
    wants_ops = True
    on_ladder = True

    def __init__(self, plan: dict[str, Any]) -> None:
        self._until: int | None = plan.get("until")
        self._saved = bool(plan.get("saved"))
        self._full = frozenset(plan.get("full", ()))
        self._patches = Patches()
        self._updates = 0
        self._optimizers: list[Any] = []
        self._anchor: Any = None
        self._save_seen = False
        self._given: list[list[Any]] = []
        self._drawn: list[str] = []

    def arm(self, tools: Tools) -> None:
        self._tools, self._torch = tools, tools.torch
        self._modules = Modules(tools.torch)
        self._made = Storages(tools.torch)
        self._met: set[tuple[Any, ...]] = set()
        self._known: set[int] = set()
        self._exit = os._exit
        self._saves = Saves(tools.torch, self._trained, self._save)
        self._saves.install(self._patches)
        torch, numpy = tools.torch, sys.modules.get("numpy")
        setters: list[tuple[Any, str]] = [(torch, "set_rng_state"), (random, "setstate")]
        setters.append((torch.random, "set_rng_state"))
        setters += [(torch.cuda.random, name) for name in ("set_rng_state", "set_rng_state_all")]
        setters += [(torch.cuda, name) for name in ("set_rng_state", "set_rng_state_all")]
        if numpy is not None and hasattr(numpy, "random"):
            setters.append((numpy.random, "set_state"))
        for owner, name in setters:
            self._patches.observe(owner, name, lambda _: None, self._restored)

    def _restored(self, nothing: Any) -> None:
        data = {"update": self._updates, "random": state.randoms(self._torch)}
        self._tools.sink.event("resume.set", data)

    def _save(self, kind: str) -> None:
        """A checkpoint with tensors of the training is being written."""
        self._save_seen = self._updates > 0
        data = {"update": self._updates, "by": kind, "random": state.randoms(self._torch)}
        self._tools.sink.event("resume.save", data, step=self._updates)

    def _params(self) -> list[Any]:
        return [p for one in self._optimizers for g in one.param_groups for p in g["params"]]

    def _trained(self) -> list[Any]:
        states = [s for one in self._optimizers for s in one.state.values() if isinstance(s, dict)]
        kind = self._torch.Tensor
        return self._params() + [t for s in states for t in s.values() if isinstance(t, kind)]

    def on_optimizer(self, optimizer: Any) -> None:
        if all(one is not optimizer for one in self._optimizers):
            self._optimizers.append(optimizer)

    # -- what each step is given and draws ----------------------------------------------------

    def open(self, step: int) -> None:
        self._made.clear()
        self._met.clear()

    def close(self, step: int) -> bool:
        return True

    def on_op(self, call: Any) -> None:
        if call.phase != FORWARD or not self._torch.is_grad_enabled():
            return
        outs = call.out if isinstance(call.out, (tuple, list)) else (call.out,)
        outs = [out for out in outs if isinstance(out, self._torch.Tensor)]
        if self._torch.Tag.nondeterministic_seeded in getattr(call.func, "tags", ()):
            self._drawn += [digest(self._torch, out) for out in outs]
        for value in (*call.args, *call.kwargs.values()):
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, self._torch.Tensor):
                    self._read(tensor)
        for out in outs:
            address = self._address(out)
            if address:
                self._made.add(address, out.untyped_storage())

    def _read(self, tensor: Any) -> None:
        """Keep what the forward was given from outside: no parameter, and made by no op of it."""
        if tensor.requires_grad or isinstance(tensor, self._torch.nn.Parameter):
            return
        if not tensor.dim() and tensor.is_floating_point():
            return  # no batch: the scale of a GradScaler, a coefficient
        address = self._address(tensor)
        if not address or address in self._made or id(tensor) in self._buffers():
            return
        key = (address, tuple(tensor.shape), tensor.storage_offset(), tensor._version, id(tensor))
        if key not in self._met:
            self._met.add(key)
            told = [short(tensor.dtype), list(tensor.shape), digest(self._torch, tensor)]
            self._given.append(told)

    def _address(self, tensor: Any) -> int:
        try:
            return int(tensor.untyped_storage().data_ptr())
        except (RuntimeError, NotImplementedError):  # sparse, wrapped
            return 0

    def _buffers(self) -> set[int]:
        """Buffers of the modules that are trained; the weights are told of apart."""
        if not self._known or len(self._known) < len(self._modules.roots):
            self._modules.learn(self._params())
            for root in self._modules.roots:
                module = root.module()
                if module is not None:
                    self._known |= {id(buffer) for buffer in module.buffers()}
        return self._known

    # -- one row per update -------------------------------------------------------------------

    def before_update(self, optimizer: Any, examined: bool) -> None:
        self.on_optimizer(optimizer)
        if self._anchor is None:
            self._anchor = optimizer
        if optimizer is not self._anchor:
            return
        over = (self._until is not None and self._updates >= self._until) or (
            self._saved and self._save_seen
        )
        self._tell(over or self._updates in self._full)
        if over:
            self._tools.sink.fact("resume.ended", Evidence("resume.ended", self._updates))
            self._exit(0)
        self._updates += 1

    def _tell(self, full: bool, end: bool = False) -> None:
        torch, params = self._torch, self._params()
        self._modules.learn(params)
        names = {self._name(p, n): p for n, p in enumerate(params)}
        data: dict[str, Any] = {
            "update": self._updates,
            "weights": state.combined({n: digest(torch, p) for n, p in names.items()}),
            "rates": state.rates(self._optimizers),
            "random": state.randoms(torch),
            "data": self._given,
            "drawn": self._drawn,
            "end": end,
            "full": None,
        }
        if full:
            by_id = {id(p): name for name, p in names.items()}
            data["full"] = {
                "weights": state.weights(torch, names),
                "buffers": state.buffers(torch),
                "optimizer": state.optimizers(
                    torch, self._optimizers, lambda p: by_id.get(id(p), "?")
                ),
                "scheduler": state.schedulers(torch, self._optimizers),
                "scaler": state.scalers(torch),
                "gradient": {
                    name: state.summed(torch, p.grad)
                    for name, p in names.items()
                    if p.grad is not None
                },
                "loaders": state.loaders(torch),
            }
        self._given, self._drawn = [], []
        self._tools.sink.event("resume.state", data, step=self._updates, id=str(self._updates))

    def _name(self, param: Any, number: int) -> str:
        return self._modules.name(param) or f"parameter {number}"

    def disarm(self) -> None:
        """The program came to its own end: what it holds then is told too."""
        if self._optimizers and self._updates:
            self._tell(full=True, end=True)
        self._patches.restore()
