"""Is autocast left before backward, and are modules in train and eval as the phase wants?

Training: when an optimizer updates, the modules that hold its parameters should be in train mode.
A part that is frozen in eval on purpose (batch statistics) leaves the others in train mode; only a
model whose parts are all in eval counts.

Evaluation: a call of such a model under `no_grad`, whose next call with gradients is its own again;
of several models that are trained, all have to be called so (one alone makes samples).
A generator that makes samples for its discriminator is followed by a call of that one, a target or
teacher network is in no optimizer, a checkpointed or frozen part runs inside a call that has
gradients, `update_bn` renews batch statistics on purpose: none of these is an evaluation.
"""

from __future__ import annotations

import weakref
from types import FrameType
from typing import Any

from reefwatch.core.fact import Evidence, Json, Unknown
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.modules import Modules, Root
from reefwatch.gather.loop.place import outermost_call, user_place
from reefwatch.gather.loop.unseen import unseen

SAMPLE = 8
"""Modules per optimizer whose mode is read at each update."""
SEARCHES = 3
ENOUGH = 3
"""Evaluation calls, after which none is looked for outside examined steps."""


class _Trained:
    """The modules that one optimizer trains."""

    def __init__(self, modules: Modules, optimizer: Any) -> None:
        self.of = weakref.ref(optimizer)
        params = [p for group in optimizer.param_groups for p in group["params"]]
        roots = {id(r): r for p in params if (r := modules.root(p)) is not None}
        self.roots = list(roots.values())
        owners = {id(m): m for p in params if (m := modules.owner(p)) is not None}
        some = list(owners.values())[:: max(1, len(owners) // SAMPLE)]
        self.owners = [weakref.ref(owner) for owner in some]
        self.owners_of = len(owners)

    def training(self) -> bool:
        """True when any part of them is in train mode, or nothing is left of them."""
        alive = [module for owner in self.owners if (module := owner()) is not None]
        return (
            not alive
            or any(module.training for module in alive)
            or any(root.noisy_in(True) for root in self.roots)
        )


class _Call:
    """One call of a root module, as far as its ops were seen."""

    __slots__ = ("frame", "grad", "noisy", "place", "renews", "root")

    def __init__(self, root: Root, frame: int, noisy: bool, above: FrameType | None) -> None:
        self.root, self.frame, self.noisy = root, frame, noisy
        self.grad = self.renews = False
        self.place = ("", 0)
        if above is not None:
            file, name = above.f_code.co_filename, above.f_code.co_name
            self.place = (file, above.f_lineno)
            self.renews = name == "update_bn" and file.endswith("swa_utils.py")


class Phases(Instrument):
    """Facts `loop.backward`, `loop.mode`, `loop.evaluation`; events `loop.phase`."""

    name = "loop.phases"
    contract = "loop"
    wants_ops = True

    def __init__(self) -> None:
        self._backwards = self._in_autocast = 0
        self._autocast_place = ("", 0)
        self._new: dict[int, weakref.ref[Any]] = {}
        self._trained: dict[int, _Trained] = {}
        self._searches = 0
        self._train = self._eval = 0
        self._call: _Call | None = None
        self._pending: list[_Call] = []
        self._calls = self._noisy_calls = self._windows = self._windows_with = 0
        self._in_window = self._called = self._glimpsing = False

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._torch = tools.torch
        self._kind = tools.torch.nn.Parameter
        self._entry = tools.torch.nn.Module._call_impl.__code__
        self._modules = Modules(tools.torch)

    def before_backward(self, loss: Any) -> None:
        self._end_call()
        if self.passing:
            return
        self._backwards += 1
        with unseen(self._torch):
            if self._torch.is_autocast_enabled(loss.device.type):
                if not self._in_autocast:
                    self._autocast_place = user_place(3)
                self._in_autocast += 1

    def before_update(self, optimizer: Any, examined: bool) -> None:
        trained = self._trained.get(id(optimizer))
        if trained is None or trained.of() is not optimizer:  # an id may be used again
            if self._searches < SEARCHES:
                self._new[id(optimizer)] = weakref.ref(optimizer)
            return
        if self.passing or not trained.owners or not any(root.noisy for root in trained.roots):
            return
        if trained.training():
            self._train += 1
            return
        self._eval += 1
        for root in trained.roots:
            if root.noisy:
                self._tell(root, "train", False, user_place(2))

    def open(self, step: int) -> None:
        self._in_window = self._called = False

    def wants_glimpse(self) -> bool:
        if self._calls >= ENOUGH or not self._trained:
            return False
        return any(root.noisy for t in self._trained.values() for root in t.roots)

    def glimpse(self, step: int) -> None:
        self._called = False
        self._glimpsing = True

    def close(self, step: int) -> bool:
        if self._glimpsing:  # not a whole step: it tells nothing of how often a step evaluates
            self._glimpsing = False
            self._end_call()
            return False
        if self._trained and self._called:
            self._windows += 1
            self._windows_with += self._in_window
        if not self._new:
            return False
        self._searches += 1
        found = {key: o for key, ref in self._new.items() if (o := ref()) is not None}
        self._new = {}
        groups = [group for optimizer in found.values() for group in optimizer.param_groups]
        self._modules.learn([p for group in groups for p in group["params"]])
        for key, optimizer in found.items():
            self._trained[key] = _Trained(self._modules, optimizer)
        return True

    def hears(self, func: Any, name: str, phase: str) -> bool:
        return phase not in ("backward", "optimizer")

    def on_op(self, call: Any) -> None:
        if not call.module:
            self._end_call()
            return
        if call.site.compiled:
            # its forward runs inside an autograd.Function, where gradients are off in training too
            return
        for arg in call.args:
            if type(arg) is self._kind:
                root = self._modules.root(arg)
                if root is not None:
                    self._enter(root)
                break
        # autocast casts a weight with gradients on, under no_grad too: its cast tells nothing
        if self._call is not None and call.name != "aten._to_copy.default":
            self._call.grad |= self._torch.is_grad_enabled()

    def _enter(self, root: Root) -> None:
        """An op that uses a parameter of this root."""
        frame = outermost_call(self._entry)
        now = self._call
        if now is None or now.root is not root or now.frame != id(frame):
            self._end_call()
            above = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
            self._call = _Call(root, id(frame), root.noisy_in(True), above)

    def _end_call(self) -> None:
        """The call is over: a call with gradients tells what the ones before it were for."""
        call, self._call = self._call, None
        if call is None:
            return
        if not call.grad:
            if not call.renews:
                self._pending.append(call)
                del self._pending[:-1000]
            return
        self._called = True
        self._settle(call.root)

    def _settle(self, following: Root | None) -> None:
        pending, self._pending = self._pending, []
        trained = self._trained_roots()
        if len(trained) > 1 and not trained <= {id(call.root) for call in pending}:
            return  # one of several models alone makes samples
        for call in pending:
            if (following is None or call.root is following) and self._is_trained(call.root):
                self._calls += 1
                self._in_window = True
                if call.noisy:
                    self._noisy_calls += 1
                    self._noisy_root = call.root
                    self._noisy_place = call.place

    def _trained_roots(self) -> set[int]:
        return {id(r) for t in self._trained.values() for r in t.roots}

    def _is_trained(self, root: Root) -> bool:
        return any(root is r for trained in self._trained.values() for r in trained.roots)

    def _tell(self, root: Root, phase: str, training: bool, place: tuple[str, int]) -> None:
        data = {
            "module": root.name,
            "training": training,
            "phase": phase,
            "file": place[0],
            "line": place[1],
        }
        self._tools.sink.event("loop.phase", data, id=f"{phase} {root.name}")

    def disarm(self) -> None:
        self._end_call()
        if len(self._trained_roots()) == 1:
            self._settle(None)
        self.tell()

    def tell(self) -> None:
        sink = self._tools.sink
        if self._backwards:
            file, line = self._autocast_place
            calls: dict[str, Json] = {"calls": self._backwards, "in_autocast": self._in_autocast}
            value = calls | {"file": file, "line": line}
            sink.fact("loop.backward", Evidence("loop.backward", value, source="autocast state"))
        else:
            sink.fact("loop.backward", Unknown("no call of Tensor.backward was seen"))
        self._write_mode()
        self._write_evaluation()

    def _write_mode(self) -> None:
        sink = self._tools.sink
        trained = self._trained.values()
        modules = {
            "modules": sum(len(t.owners) for t in trained),
            "modules_of": sum(t.owners_of for t in trained),
        }
        value = {"train_steps": self._train, "eval_steps": self._eval, **modules}
        evidence = Evidence("loop.mode", value, source="Module.training at each update")
        if self._train or self._eval:
            sink.fact("loop.mode", evidence)
            sink.fact("loop.moded", Evidence("loop.moded", True))
        elif self._trained and any(t.owners for t in self._trained.values()):
            source = "no dropout and no batch statistics in the trained modules"
            sink.fact("loop.moded", Evidence("loop.moded", False, source=source))
        else:
            sink.fact("loop.moded", Unknown("the modules that are trained were not found"))

    def _write_evaluation(self) -> None:
        sink = self._tools.sink
        every = self._windows >= 3 and self._windows_with > 0.9 * self._windows
        calls, noisy = self._calls, self._noisy_calls
        if every and noisy:  # a part of each step, such as labels made by the model itself
            calls = noisy = 0
        if noisy:
            self._tell(self._noisy_root, "eval", True, self._noisy_place)
        if calls:
            value = {"calls": calls, "in_train_mode": noisy}
            sink.fact("loop.evaluation", Evidence("loop.evaluation", value, source="ops"))
        else:
            sink.fact("loop.evaluation", Unknown("no evaluation was seen in the examined steps"))
