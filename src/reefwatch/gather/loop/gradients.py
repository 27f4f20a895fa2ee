"""Are gradients cleared between two updates, and do they reach the next one?

PyTorch adds each backward onto `p.grad`. What was applied at an update must therefore be gone
before the last backward that leads to the next: `p.grad` is None or another tensor (known in every
step, by identity), or its storage was zeroed in place. A version counter does not tell zeroing from
clipping, and `p.grad.data.zero_()` does not move it, so in place is known in examined cycles only:
by the op, or by the values when a backward begins. A cycle where neither is known is not counted.
"""

from __future__ import annotations

import weakref
from typing import Any

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.modules import Modules
from reefwatch.gather.loop.place import user_place
from reefwatch.gather.loop.unseen import nonzero, plain, unseen

SAMPLE = 4
"""Parameters per optimizer that are looked at in a step that is not examined."""
LOOKED_INTO = 64
"""Gradients per backward whose values are read, in an examined step."""
TOLD = 8
"""Names kept per optimizer."""

_CLEARING = {
    "aten.zero_.default": "zero",
    "aten._foreach_zero_.default": "zero",
    "aten.fill_.Scalar": "by value",
    "aten.fill_.Tensor": "by value",
    "aten.mul_.Tensor": "by value",
    "aten.mul_.Scalar": "by value",
    "aten._foreach_mul_.Scalar": "by value",
    "aten.copy_.default": "copy",
    "aten._foreach_copy_.default": "copy",
}
"""Ops after which nothing of the old gradient is left. A copy over a gradient that a backward has
just made is not one: clipping and hand-written reductions do that too."""


class _Track:
    """What is known of one parameter's gradient since the optimizer's last update."""

    __slots__ = ("cleared", "dropped", "fed", "full", "grad", "param", "version")

    def __init__(self, param: Any) -> None:
        self.param = weakref.ref(param)
        self.grad: Any = None
        self.version = 0
        self.cleared = self.fed = self.dropped = self.full = False

    def see(self, grad: Any) -> None:
        self.grad = None if grad is None else weakref.ref(grad)
        self.version = 0 if grad is None else grad._version

    def start(self) -> None:
        """The gradient has just been applied."""
        param = self.param()
        self.see(None if param is None else param.grad)
        self.cleared = self.fed = self.dropped = self.full = False

    def outside(self) -> Any:
        """Look, where no backward ran since the last look.

        Returns the gradient when it is still the same tensor and not known to be cleared.
        """
        param = self.param()
        grad = None if param is None else param.grad
        if grad is None or self.grad is None or self.grad() is not grad:
            if self.grad is not None or grad is not None:
                self.cleared = True
                self.dropped = self.fed and grad is None
            self.see(grad)
            return None
        return None if self.cleared else grad

    def inside(self) -> None:
        """Look, where a backward has just run.

        A tensor replaced there was added to, not cleared (`create_graph`, a bucket of DDP).
        """
        param = self.param()
        grad = None if param is None else param.grad
        if grad is None:
            return
        if self.grad is None or self.grad() is not grad or self.version != grad._version:
            self.fed, self.dropped = True, False
            self.see(grad)


class _Optimizer:
    """The cycles of one optimizer."""

    def __init__(self, number: int, optimizer: Any) -> None:
        self.number = number
        self.ref = weakref.ref(optimizer)
        self.kind = type(optimizer).__name__
        self.tracks: list[_Track] = []
        self.few: list[_Track] = []
        self.size: tuple[int, ...] = ()
        self.updates = self.cycles = self.watched = self.uncleared = self.stale = self.dropped = 0
        self.names: list[str] = []
        self.since = self.moment = -1
        self.backwards = 0
        self.passed = False
        """True when the cycle under way began in a step that was passed over."""
        self.verdict: tuple[Any, ...] = ()
        self.place = ("", 0)
        self.partly = False
        """True when in some cycle only `few` of its parameters were looked at."""
        self.params = self.params_of = 0

    def learn(self, optimizer: Any) -> None:
        """Take over the parameters again when groups were added."""
        size = tuple(len(group["params"]) for group in optimizer.param_groups)
        if size == self.size:
            return
        known = {id(track.param()): track for track in self.tracks}
        params = [p for group in optimizer.param_groups for p in group["params"]]
        self.tracks = [known.get(id(p)) or _Track(p) for p in params if p.is_leaf]
        self.few = self.tracks[:: -(-len(self.tracks) // SAMPLE) or 1]
        self.size = size
        self.params, self.params_of = len(self.few), len(self.tracks)

    def fold(self, other: _Optimizer) -> None:
        """Add the counts of another optimizer that is gone, and let the tensors go."""
        self.tracks = self.few = []
        if other is self:
            return
        for count in ("updates", "cycles", "watched", "uncleared", "stale", "dropped"):
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.partly |= other.partly
        if not self.place[0]:
            self.place = other.place
        if not self.names:
            self.names = other.names

    def sample(self, everything: bool) -> list[_Track]:
        return self.tracks if everything else self.few


class Gradients(Instrument):
    """Facts `loop.cycles`, `loop.training`; events `loop.cycle`."""

    name = "loop.gradients"
    contract = "loop"
    wants_ops = True

    def __init__(self) -> None:
        self._optimizers: dict[int, _Optimizer] = {}
        self._open = False
        self._backwards = 0
        self._by_storage: dict[int, list[_Track]] | None = None
        self._news = False
        self._moments = self._unexamined = self._numbers = 0
        self._retired: dict[str, _Optimizer] = {}

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._torch = tools.torch

    def open(self, step: int) -> None:
        self._open = True
        self._by_storage = None
        with unseen(self._torch):
            for state in self._optimizers.values():
                if state.moment == self._moments:  # its update has just opened this step
                    state.passed = False
                    for track in state.tracks:
                        track.start()

    def close(self, step: int) -> bool:
        self._open = False
        news, self._news = self._news, False
        if news:
            self._write()
        return news

    def _moment(self) -> None:
        """Something happens: cycles that run while no step is examined become blind."""
        self._moments += 1
        self._unexamined += not self._open

    def _blind(self, state: _Optimizer) -> bool:
        """True when a part of the running cycle was not examined."""
        return state.since != self._unexamined

    def hears(self, func: Any, name: str, phase: str) -> bool:
        return name in _CLEARING

    def on_op(self, call: Any) -> None:
        how = _CLEARING[call.name]
        if not call.args:
            return
        if how == "by value" and not (len(call.args) > 1 and _is_zero(self._torch, call.args[1])):
            return
        first = call.args[0]
        for tensor in first if isinstance(first, (list, tuple)) else (first,):
            self._emptied(tensor, how)

    def _emptied(self, tensor: Any, how: str) -> None:
        """A clearing op ran on this storage (or on this very tensor, where it has none)."""
        if self._by_storage is None:
            self._by_storage = {}
            for state in self._optimizers.values():
                for track in state.tracks:
                    grad = track.grad() if track.grad is not None else None
                    if grad is not None:
                        self._by_storage.setdefault(_key(grad), []).append(track)
        for track in self._by_storage.get(_key(tensor), ()):
            if how == "copy" and track.fed:
                continue
            track.cleared = True
            track.dropped = track.fed

    def before_backward(self, loss: Any) -> None:
        self._moment()
        self._backwards += 1
        if self.passing:
            return
        with unseen(self._torch):
            suspects = [
                (track, grad)
                for state in self._optimizers.values()
                if state.updates
                for track in state.sample(self._open)
                if (grad := track.outside()) is not None
            ]
        if self._open and suspects:
            self._look_into(suspects[:: -(-len(suspects) // LOOKED_INTO)])
        self._by_storage = None

    def _look_into(self, suspects: list[tuple[_Track, Any]]) -> None:
        """Whether there is anything left in them: what is not an op may have zeroed them too."""
        for (track, _), full in zip(
            suspects, nonzero(self._torch, [grad for _, grad in suspects]), strict=True
        ):
            track.cleared |= full is False
            track.full = bool(full)

    def after_backward(self, loss: Any) -> None:
        self._moment()
        if self.passing:
            return
        with unseen(self._torch):
            for state in self._optimizers.values():
                if state.updates:
                    for track in state.sample(self._open):
                        track.inside()
        self._by_storage = None

    def before_update(self, optimizer: Any, examined: bool) -> None:
        self._moment()
        state = self._optimizers.get(id(optimizer))
        if state is None or state.ref() is not optimizer:
            state = self._register(optimizer)
        state.backwards = self._backwards
        if self.passing:
            return
        stale: list[tuple[_Track, Any]] = []
        with unseen(self._torch):
            state.learn(optimizer)
            if state.updates:
                doubtful = [
                    (t, g) for t in state.sample(self._open) if (g := t.outside()) is not None
                ]
                stale = [(t, g) for t, g in doubtful if not t.fed]
        if self._open and stale:
            self._look_into(stale[:: -(-len(stale) // LOOKED_INTO)])
        if state.updates:
            state.verdict = self._judge(state)
            self._locate(state)

    def _register(self, optimizer: Any) -> _Optimizer:
        """A state for a new optimizer; those that are gone keep one state per kind together."""
        for key, state in list(self._optimizers.items()):
            if state.ref() is None:
                del self._optimizers[key]
                self._retired.setdefault(state.kind, state).fold(state)
        state = _Optimizer(self._numbers, optimizer)
        self._numbers += 1
        self._optimizers[id(optimizer)] = state
        return state

    def after_update(self, optimizer: Any, examined: bool) -> None:
        state = self._optimizers.get(id(optimizer))
        if state is None or state.ref() is not optimizer:
            return
        self._moment()
        if self.passing:  # the cycle counts among those that were not watched
            state.cycles += bool(state.updates)
            state.updates += 1
            state.passed = True
            state.since, state.moment = self._unexamined, self._moments
            return
        if state.passed:  # what the sampled gradients were before this cycle is not known
            state.passed = False
            state.cycles += bool(state.updates)
        elif state.updates:
            if self._backwards != state.backwards:  # a closure: the gradients were made inside
                state.verdict = self._judge(state)
                self._locate(state)
            self._count(state, *state.verdict)
        state.updates += 1
        state.since, state.moment = self._unexamined, self._moments
        with unseen(self._torch):
            for track in state.sample(self._open):
                track.start()
        self._by_storage = None

    def _judge(self, state: _Optimizer) -> tuple[list[_Track], bool, bool]:
        """(parameters not cleared, whether it is known, whether all gradients were dropped)."""
        blind = self._blind(state)
        looked = state.sample(not blind)
        held = [track for track in looked if track.grad is not None or track.cleared]
        doubtful = [track for track in held if not track.cleared]
        full = [track for track in doubtful if track.full]
        fed = [track for track in looked if track.fed]
        dropped = bool(fed) and all(track.dropped for track in fed)
        if not doubtful:
            return [], True, dropped
        if blind:
            return [], False, False
        return full, bool(full), dropped

    def _locate(self, state: _Optimizer) -> None:
        """Where the update is called, when there is something to say of it."""
        uncleared, _, dropped = state.verdict
        if (uncleared or dropped) and not state.place[0]:
            state.place = user_place(3)

    def _count(
        self, state: _Optimizer, uncleared: list[_Track], known: bool, dropped: bool
    ) -> None:
        state.cycles += 1
        state.partly |= not self._open
        state.watched += known
        state.dropped += dropped
        if not uncleared:
            return
        self._news |= not state.uncleared
        state.uncleared += 1
        state.stale += not any(track.fed for track in uncleared)
        if not state.names:
            state.names = self._names(state, uncleared[:TOLD])
        self._breach(state)

    def _names(self, state: _Optimizer, tracks: list[_Track]) -> list[str]:
        """What the parameters are called; at once, while the modules are alive."""
        params = [param for track in tracks if (param := track.param()) is not None]
        modules = Modules(self._torch)
        modules.learn(params)
        return [modules.name(p) or f"a parameter of shape {tuple(p.shape)}" for p in params]

    def _breach(self, state: _Optimizer) -> None:
        referee = self._tools.referee
        if referee is None:
            return
        file, line = state.place
        row = {"event": "loop.cycle", "optimizer": state.kind, "uncleared": state.uncleared}
        message = referee.breach("loop", {**row, "file": file, "line": line})
        if message:
            raise Breach(message)

    def _write(self) -> None:
        sink = self._tools.sink
        alive = self._optimizers.values()
        states = [state for state in (*self._retired.values(), *alive) if state.updates]
        for state in states:
            data = {
                "optimizer": state.kind,
                "cycles": state.watched,
                "uncleared": state.uncleared,
                "stale": state.stale,
                "dropped": state.dropped,
                "params": state.names,
                "file": state.place[0],
                "line": state.place[1],
            }
            sink.event("loop.cycle", data, id=str(state.number))
        updates = sum(state.updates for state in states)
        if self._backwards and not updates:
            why = "backward ran and no update was seen (a compiled step, or one written by hand)"
            sink.fact("loop.training", Unknown(why))
        else:
            training = Evidence("loop.training", updates > 0, source="optimizer steps")
            sink.fact("loop.training", training)
        of = sum(state.cycles for state in states)
        watched = sum(state.watched for state in states)
        if watched:
            params_of = sum(state.params_of for state in states)
            params = sum(s.params if s.partly else s.params_of for s in states)
            value = {"watched": watched, "of": of, "params": params, "params_of": params_of}
            sink.fact("loop.cycles", Evidence("loop.cycles", value, source="p.grad at each update"))
        elif of:
            why = "gradients are cleared in place, which only examined steps can show"
            sink.fact("loop.cycles", Unknown(why))
        else:
            sink.fact("loop.cycles", Unknown(f"{updates} updates: two of one optimizer are needed"))

    def tell(self) -> None:
        self._write()

    def disarm(self) -> None:
        self._write()


def _is_zero(torch: Any, value: Any) -> bool:
    """A number, or a 0-dim tensor on the host, that is zero."""
    if isinstance(value, (int, float)):
        return value == 0
    if not plain(torch, value) or value.dim() != 0 or value.device.type != "cpu":
        return False
    return bool(value.item() == 0)


def _key(tensor: Any) -> int:
    """The storage of a dense tensor; a sparse one has none and stands for itself."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return id(tensor)
