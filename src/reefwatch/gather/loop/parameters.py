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
from reefwatch.gather.loop.modules import Modules
from reefwatch.gather.loop.place import user_place
from reefwatch.gather.loop.unseen import aside, together, unseen

LOOKS = 4
"""Examined updates after which values of parameters known by then are compared at the end only."""
NEEDED = 3
"""Updates between two looks before a value that stays is called not changing."""
NEGLIGIBLE = 1e-5
"""Of the usual largest gradient: below it a gradient is zero up to rounding (a bias before a
normalisation), and that SGD rounds such an update away is not a fault. float32 has 24 bits;
sums of a few thousand terms cancel to about 1e-6 of their size."""


class _Param:
    """What is known of one parameter."""

    __slots__ = (
        "bits",
        "changed",
        "grad",
        "held",
        "moved",
        "place",
        "received",
        "ref",
        "since",
        "used",
    )

    def __init__(self, param: Any) -> None:
        self.ref = weakref.ref(param)
        self.held = self.moved = self.used = self.received = self.changed = False
        self.bits: tuple[int, ...] | None = None
        self.since = 0
        self.grad: float | None = None
        self.place = ("", 0)


class Parameters(Instrument):
    """Fact `loop.params`, events `loop.param`."""

    name = "loop.parameters"
    contract = "loop"
    wants_ops = True

    def __init__(self) -> None:
        self._known: dict[int, _Param] = {}
        self._open = False
        self._updates = self._looks = self._searches = 0
        self._fed = 0
        self._usual = 0.0
        self._sizes: dict[int, tuple[Any, ...]] = {}
        self._place = ("", 0)

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._torch = tools.torch
        self._kind = tools.torch.nn.Parameter
        self._modules = Modules(tools.torch)

    def _param(self, param: Any) -> _Param:
        known = self._known.get(id(param))
        if known is None or known.ref() is not param:
            known = self._known[id(param)] = _Param(param)
        return known

    def open(self, step: int) -> None:
        self._open = True

    def close(self, step: int) -> bool:
        self._open = False
        if self._searches >= LOOKS:
            return False
        before = len(self._known)
        unnamed = [p for k in self._known.values() if (p := k.ref()) is not None]
        if any(self._modules.root(p) is None for p in unnamed):
            self._searches += 1
            self._modules.learn(unnamed)
            self._adopt()
        return len(self._known) > before

    def _adopt(self) -> None:
        """Take in the other parameters of the modules found."""
        for root in self._modules.roots:
            for ref, _ in root.params.values():
                param = ref()
                if param is not None:
                    self._param(param)

    def on_op(self, call: Any) -> None:
        if call.phase in ("backward", "optimizer"):
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
        with unseen(self._torch):
            self._hold(optimizer)
        if not self._open:
            return
        self._receive()
        if self._looks < LOOKS:
            self._look(optimizer)

    def _hold(self, optimizer: Any) -> None:
        """Which parameters it holds, and at what learning rate. Cheap when nothing is new."""
        groups = optimizer.param_groups
        size = tuple((len(group["params"]), _moves(group.get("lr"))) for group in groups)
        if self._sizes.get(id(optimizer)) == size:
            return
        if id(optimizer) not in self._sizes:
            self._place = user_place(3)
        self._sizes[id(optimizer)] = size
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
            if not known.changed
            and (param := known.ref()) is not None
            and param.requires_grad
            and param.device.type != "meta"
        ]
        bits = fingerprints(self._torch, [param for _, param in pending])
        for (known, _), now in zip(pending, bits, strict=True):
            if known.bits is None:
                known.bits, known.since = now, self._updates
            elif known.bits != now:
                known.changed = True

    def _measure(self, still: list[tuple[_Param, Any]], optimizer: Any) -> None:
        """The largest gradient of parameters that have not changed, and what is usual."""
        torch = self._torch
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.is_leaf and p.grad is not None]
        if not still or not grads:
            return
        with aside(torch):
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
            return
        if not self._looks:
            sink.fact("loop.params", Unknown("no examined update: parameters were not compared"))
            return
        with aside(self._torch):
            self._receive()
            self._compare()
        problems = self._problems()
        self._modules.learn([param for _, param, _ in problems])
        named = True
        for n, (known, param, problem) in enumerate(problems):
            name = self._modules.name(param)
            named = named and bool(name)
            sink.event("loop.param", self._row(known, param, problem, name), id=str(n))
        trainable = [
            k for k in self._known.values() if (p := k.ref()) is not None and p.requires_grad
        ]
        value = {
            "trainable": len(trainable),
            "in_optimizer": sum(k.held for k in trainable),
            "changed": sum(k.changed for k in trainable),
            "received": sum(k.received for k in trainable),
            "updates_watched": self._looks,
            "updates": self._updates,
            "names_complete": named,
        }
        source = "bits of each parameter, first look against last"
        sink.fact("loop.params", Evidence("loop.params", value, source=source))

    def _problems(self) -> list[tuple[_Param, Any, str]]:
        found = []
        for known in self._known.values():
            param = known.ref()
            if param is None or not param.requires_grad or known.bits is None:
                continue
            enough = self._updates - known.since >= NEEDED
            if not known.held and known.received and not known.changed:
                found.append((known, param, "not in optimizer"))
            elif known.used and not known.received and not known.changed and known.held:
                found.append((known, param, "no gradient"))
            elif known.held and known.received and not known.changed and enough:
                found.append((known, param, "not changing"))
        return found

    def _row(self, known: _Param, param: Any, problem: str, name: str) -> dict[str, Any]:
        root = self._modules.root(param)
        held = root is not None and any(
            (k := self._known.get(key)) is not None and k.held for key in root.params
        )
        file, line = known.place if known.place[0] else self._place
        return {
            "name": name or f"a parameter of shape {tuple(param.shape)}",
            "problem": problem,
            "root": root.name if root else "",
            "root_in_optimizer": held,
            "elements": param.numel(),
            "cause": self._cause(known, param) if problem == "not changing" else "",
            "file": file,
            "line": line,
        }

    def _cause(self, known: _Param, param: Any) -> str:
        if not known.moved:
            return "learning rate is 0"
        if known.grad is None:
            return "no gradient was there at the update"
        if known.grad == 0:
            return "gradient is zero"
        if known.grad <= NEGLIGIBLE * self._usual:
            return "gradient is zero up to rounding"
        return "update is lost in rounding"


def _moves(rate: Any) -> bool:
    """True when a learning rate is not 0. One on a device is not read; it counts as not 0."""
    if isinstance(rate, (int, float)):
        return rate != 0
    host = getattr(rate, "device", None) is not None and rate.device.type == "cpu"
    return bool(rate.count_nonzero()) if host else True


def _largest(torch: Any, grad: Any) -> Any:
    grad = getattr(grad, "_local_tensor", grad).detach()
    grad = grad._values() if grad.layout is not torch.strided else grad
    return grad.abs().amax().float() if grad.numel() else torch.zeros((), device=grad.device)
