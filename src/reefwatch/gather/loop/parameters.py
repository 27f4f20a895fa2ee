"""Is every trainable parameter in an optimizer, does it get a gradient, and does it change?

Parameters are known from optimizers, from the modules around those, and as arguments of the ops of
examined steps. Whether one changes is told by its bits, not by its version counter: with a learning
rate of 0 the counter moves and the value does not. The first look is compared with later ones,
the last at the end of the run, so a warm-up that starts at 0 is not mistaken for a fault.
"""

from __future__ import annotations

import weakref
from typing import Any

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.bits import fingerprints
from reefwatch.gather.loop.modules import Modules, Root
from reefwatch.gather.loop.place import user_place
from reefwatch.gather.loop.unseen import aside, dense, freed, plain, together, unseen

LOOKS = 8
"""Examined updates in which values are compared; later ones only when their number has doubled."""
SEARCHES = 4
"""Walks for the modules of parameters that are not known yet."""
NEEDED = 3
"""Updates between two looks before a value that stays is called not changing."""
NEGLIGIBLE = 1e-5
"""Of the usual largest gradient: below it a gradient is zero up to rounding (a bias before a
normalisation), and that SGD rounds such an update away is not a fault. float32 has 24 bits;
sums of a few thousand terms cancel to about 1e-6 of their size."""


class _Param:
    """What is known of one parameter. The parameter itself may be gone before the run ends."""

    def __init__(self, param: Any) -> None:
        self.ref = weakref.ref(param)
        self.shape = tuple(param.shape)
        self.elements = int(param.numel())
        self.trainable = bool(param.requires_grad)
        self.root: Root | None = None
        self.name = ""
        self.held = self.moved = self.used = self.received = self.changed = False
        self.gathered = False
        """True for what FSDP gathers for a while: the parameter is its shard, seen by itself."""
        self.bits: tuple[int, ...] | None = None
        self.first = self.last = 0
        """Updates before the first and the last look at its bits."""
        self.moved_by_last = False
        self.grad: float | None = None
        self.place = ("", 0)


class Parameters(Instrument):
    """Facts `loop.params`, `loop.changes`; events `loop.param`."""

    name = "loop.parameters"
    contract = "loop"
    wants_ops = True

    def __init__(self) -> None:
        self._known: dict[int, _Param] = {}
        self._open = False
        self._gone: list[_Param] = []
        self._updates = self._looks = self._searches = self._last = 0
        self._usual = 0.0
        self._sizes: dict[int, tuple[weakref.ref[Any], tuple[Any, ...]]] = {}
        self._place = ("", 0)

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._torch = tools.torch
        self._kind = tools.torch.nn.Parameter
        self._modules = Modules(tools.torch)

    def _param(self, param: Any) -> _Param:
        known = self._known.get(id(param))
        if known is None or known.ref() is not param:
            if known is not None:  # another one has its place in memory
                self._gone.append(known)
            known = self._known[id(param)] = _Param(param)
        return known

    def open(self, step: int) -> None:
        self._open = True

    def close(self, step: int) -> bool:
        self._open = False
        before = len(self._known)
        if self._searches < SEARCHES and any(k.root is None for k in self._known.values()):
            self._searches += 1
            self._name()
        return len(self._known) > before

    def _name(self) -> None:
        """Find the modules of the parameters, now, while they are alive."""
        self._modules.learn(p for k in self._known.values() if (p := k.ref()) is not None)
        self._adopt()
        for known in self._known.values():
            param = known.ref()
            if param is not None and known.root is None:
                known.root = self._modules.root(param)
                known.name = self._modules.name(param)

    def _adopt(self) -> None:
        """Take in the other parameters of the modules found."""
        for root in self._modules.roots:
            for ref, _ in root.params.values():
                param = ref()
                if param is not None:
                    self._param(param)

    def hears(self, func: Any, name: str, phase: str) -> bool:
        return phase == "forward"

    def on_op(self, call: Any) -> None:
        if not call.module:
            return
        kind = self._kind
        for arg in call.args:
            if type(arg) is kind:
                known = self._param(arg)
                if not known.used and self._torch.is_grad_enabled():
                    known.used = True
                    known.place = (call.file, call.line)

    def after_backward(self, loss: Any) -> None:
        if self._open:
            self._receive()

    def _receive(self) -> None:
        with unseen(self._torch):
            for known in self._known.values():
                if not known.received:
                    param = known.ref()
                    known.received = param is not None and param.is_leaf and param.grad is not None

    def before_update(self, optimizer: Any, examined: bool) -> None:
        if self.passing:
            return
        with unseen(self._torch):
            self._hold(optimizer)
        if not self._open:
            return
        self._receive()
        if self._looks < LOOKS or self._updates >= 2 * self._last:
            self._look(optimizer)

    def _hold(self, optimizer: Any) -> None:
        """Which parameters it holds, and at what learning rate. Cheap when nothing is new."""
        groups = optimizer.param_groups
        size = tuple(
            (len(group["params"]), _moves(self._torch, group.get("lr"))) for group in groups
        )
        ref, known_size = self._sizes.get(id(optimizer), (None, ()))
        if ref is not None and ref() is optimizer and known_size == size:
            return
        if id(optimizer) not in self._sizes:
            self._place = user_place(3)
        self._sizes[id(optimizer)] = (weakref.ref(optimizer), size)
        for (_, moves), group in zip(size, groups, strict=True):
            for param in group["params"]:
                known = self._param(param)
                known.held = True
                known.moved |= moves

    def after_update(self, optimizer: Any, examined: bool) -> None:
        self._updates += 1

    def _look(self, optimizer: Any) -> None:
        """Compare the values of all parameters not yet seen to change with the first look."""
        self._looks += 1
        self._last = self._updates
        self._compare()
        still = [
            (known, param.grad)
            for known in self._known.values()
            if known.held
            and not known.changed
            and (param := known.ref()) is not None
            and param.grad is not None
        ]
        self._measure(still, optimizer)

    def _compare(self) -> None:
        pending = [
            (known, param)
            for known in self._known.values()
            if not known.changed and (param := known.ref()) is not None
        ]
        for known, param in pending:
            known.trainable = bool(param.requires_grad)
        pending = [(k, p) for k, p in pending if k.trainable]
        bits = fingerprints(self._torch, [param for _, param in pending])
        for (known, param), now in zip(pending, bits, strict=True):
            if now is None:
                known.gathered |= plain(self._torch, param) and freed(param)
                continue
            if known.bits is None:
                known.bits, known.first = now, self._updates
            known.changed = known.bits != now
            known.last, known.moved_by_last = self._updates, known.moved

    def _measure(self, still: list[tuple[_Param, Any]], optimizer: Any) -> None:
        """The largest gradient of parameters that have not changed, and what is usual."""
        torch = self._torch
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.is_leaf and p.grad is not None]
        if not still or not grads:
            return
        with aside(torch):
            still = [(k, part) for k, g in still if (part := dense(torch, g)) is not None]
            grads = [part for g in grads if (part := dense(torch, g)) is not None]
            if not still or not grads:
                return
            wanted = [_largest(torch, g) for _, g in still] + [_largest(torch, g) for g in grads]
            values = together(torch, wanted)
        for (known, _), value in zip(still, values, strict=False):
            known.grad = max(known.grad or 0.0, value)
        usual = sorted(values[len(still) :])
        self._usual = max(self._usual, usual[len(usual) // 2])

    def disarm(self) -> None:
        sink = self._tools.sink
        if not self._updates:
            why = "no optimizer step was seen"
            sink.fact("loop.params", Unknown(why))
            sink.fact("loop.changes", Unknown(why))
            return
        if not self._looks:
            why = "no examined update: parameters were not compared"
            sink.fact("loop.params", Unknown(why))
            sink.fact("loop.changes", Unknown(why))
            return
        with aside(self._torch):
            self._receive()
            self._compare()
        self._name()
        everything = [
            known
            for known in (*self._gone, *self._known.values())
            if known.trainable and (known.held or not known.gathered)
        ]
        named = True
        number = 0
        for known in everything:
            problem = _problem(known)
            if problem:
                named = named and bool(known.name)
                sink.event("loop.param", self._row(known, problem), id=str(number))
                number += 1
        value = {
            "trainable": len(everything),
            "in_optimizer": sum(k.held for k in everything),
            "changed": sum(k.changed for k in everything),
            "received": sum(k.received for k in everything),
            "compared": sum(k.bits is not None for k in everything),
            "updates_watched": self._looks,
            "updates": self._updates,
            "names_complete": named,
        }
        source = "bits of each parameter, first look against last"
        sink.fact("loop.params", Evidence("loop.params", value, source=source))
        held = [k for k in everything if k.held]
        sure = sum(k.changed or k.last - k.first >= NEEDED for k in held)
        changes = Evidence("loop.changes", {"known": sure, "of": len(held)}, source=source)
        why = f"no parameter was looked at twice with {NEEDED} updates between"
        sink.fact("loop.changes", changes if sure else Unknown(why))

    def _row(self, known: _Param, problem: str) -> dict[str, Any]:
        root = known.root
        held = root is not None and any(
            (k := self._known.get(key)) is not None and k.held for key in root.params
        )
        file, line = known.place if known.place[0] else self._place
        return {
            "name": known.name or f"a parameter of shape {known.shape}",
            "problem": problem,
            "root": root.name if root else "",
            "root_in_optimizer": held,
            "elements": known.elements,
            "cause": self._cause(known) if problem == "not changing" else "",
            "file": file,
            "line": line,
        }

    def _cause(self, known: _Param) -> str:
        if not known.moved:
            return "learning rate is 0"
        if known.grad is None:
            return "no gradient was there at the update"
        if known.grad == 0:
            return "gradient is zero"
        if known.grad <= NEGLIGIBLE * self._usual:
            return "gradient is zero up to rounding"
        return "update is lost in rounding"


def _problem(known: _Param) -> str:
    """What is wrong with it, or an empty string."""
    if known.bits is None or known.changed:
        return ""
    if not known.held:
        return "not in optimizer" if known.received and known.last > known.first else ""
    if not known.received:
        return "no gradient" if known.used and known.last > known.first else ""
    certain = known.last - known.first >= NEEDED and known.moved == known.moved_by_last
    return "not changing" if certain else ""


def _moves(torch: Any, rate: Any) -> bool:
    """True when a learning rate is not 0. One on a device is not read; it counts as not 0."""
    if isinstance(rate, (int, float)):
        return rate != 0
    if not plain(torch, rate) or rate.device.type != "cpu" or rate.numel() != 1:
        return True
    return bool(rate.item() != 0)


def _largest(torch: Any, grad: Any) -> Any:
    return grad.abs().amax().float() if grad.numel() else torch.zeros((), device=grad.device)
