"""Starts the instruments in order, finds the steps, stops the instruments in reverse."""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence, Json, Unknown
from reefwatch.core.ports import Referee, Sink
from reefwatch.gather import environment, patches
from reefwatch.gather.budget import Scheduler
from reefwatch.gather.guard import Gate, Panel, describe
from reefwatch.gather.imports import PostImport
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.moments import ModuleCalls, Moments
from reefwatch.gather.patches import get_ident, perf_counter
from reefwatch.gather.steps import Cycles

STATUS_SECONDS = 0.5
"""At most this often the live line is told anything."""
BLIND_BACKWARDS = 8
"""Backward passes without an update, where something was compiled, after which none is awaited."""
GLIMPSE = 200
"""Ops of a block without gradients that are looked at outside an examined step."""
GLIMPSES = 12
"""Such looks per run."""

M = TypeVar("M", bound=Callable[..., None])


def moment(threads: str) -> Callable[[M], M]:
    """A moment of the user's run: what fails in it ends the watch, not the run; it is timed.

    `threads` says on which it counts: `any`, or the one that is `training` or `calling` modules.
    """

    def decorate(method: M) -> M:
        @functools.wraps(method)
        def guarded(self: Watch, *args: Any) -> None:
            ident = get_ident()
            if not self.live or self._busy == ident:
                return
            if self._stale and ident in self._stale:
                self._guarded("threads", self._sweep)
            if ident != self._owner and not self._admits(ident, threads):
                if threads == "training" and ident not in self._others:
                    self._guarded("threads", self._pass_over)
                return
            self._busy, self._mark = ident, perf_counter()
            try:
                if self._breach is not None:
                    breach, self._breach = self._breach, None
                    raise breach
                method(self, *args)
            except Breach:
                raise
            except Exception as error:
                self._fail(method.__name__, error)
            finally:
                self._busy = 0
                self._fixed += perf_counter() - self._mark

        return guarded  # type: ignore[return-value]

    return decorate


class Watch:
    """One watched run of one process. `start` before the script, `stop` after it.

    `exam` is the allowance of the exam in seconds of overhead, `budget` the share of the wall
    time after it. `strict` names contracts, or `all`; the referee judges their rows at once.
    `on_status` is told `{"step", "kind", "exam", "examined", "step_seconds"}` now and then.
    """

    def __init__(
        self,
        sink: Sink,
        instruments: list[Instrument],
        *,
        exam: float = 20.0,
        budget: float = 0.02,
        strict: Collection[str] = (),
        referee: Referee | None = None,
        options: dict[str, Any] | None = None,
        on_status: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.live = False
        """True while this process is watched; never in a forked child."""
        self.forks = 0
        self._gate = Gate(sink)
        self._panel = Panel(instruments, self._gate)
        self._scheduler = Scheduler(exam, budget, perf_counter)
        self._scheduler.wanted = frozenset((options or {}).get("ladder", ()))
        self._cycles = Cycles()
        self._roots = Cycles()
        self._strict = frozenset(strict)
        self._referee = referee
        self._options = {} if options is None else options
        self._on_status = on_status
        self._import = PostImport("torch", self._torch_ready)
        self._stopped = False
        self._busy = 0
        self._breach: Breach | None = None
        self._torch: Any = None
        self._layer: Any = None
        self._moments: Moments | None = None
        self._calls: ModuleCalls | None = None
        self._children: Callable[[], dict[str, int]] | None = None
        self._pending: list[weakref.ref[Any]] = []
        self._optimizers = self._backwards = self._compiles = 0
        self._owner = 0
        """The thread that steps."""
        self._stale: set[int] = set()
        """Threads on which the op layer was entered and could not be left."""
        self._others: set[int] = set()
        """Other threads that trained meanwhile; nothing of theirs is looked at."""
        self._trains = False
        self._kind = ""
        self._counted = True
        """False when steps went on but could no longer be counted."""
        self._steps = 0
        """Steps of this kind that have ended."""
        self._step = 0
        """Number of the step under way."""
        self._turn = 0
        self._examined = False
        self._inside = False
        """True while the op layer is entered."""
        self._missed = False
        """True when the step under way was taken over by a thread in the middle of its own."""
        self._glimpsing = False
        """True from the start of a block without gradients, in a step that is not examined."""
        self._glimpses = self._ops_before = 0
        self._glimpsed = 0.0
        """Seconds that glimpses took in the step under way."""
        self._overdue = False
        self._postponed = ""
        """The kind of a step that ended where the op layer cannot be left."""
        self._layer_before = self._limit = 0.0
        self._cut = 0
        """Examined steps of which the rest was not seen: they cost too much."""
        self._mark = self._boundary = self._started = perf_counter()
        self._fixed = self._carried = 0.0
        self._said = 0.0
        self._ended_by = ""
        """What ended the watch before the run was over."""

    def start(self) -> None:
        """Begin; torch is followed from the moment that the script has imported it."""
        self._started = self._boundary = perf_counter()
        self.live = True
        _watches.add(self)
        self._gate.fact("env.torch", Unknown("torch was not imported by the script"))
        self._gate.fact("run.steps", Unknown("no step was seen"))
        self._import.start()

    def stop(self, exit: Mapping[str, Any] | None = None) -> None:
        """End: close what is open, put everything back, write the totals. Idempotent.

        `exit` is `{"code", "exception"}`. Does nothing in a forked child.
        """
        if self._stopped or not self.live:
            return
        self._stopped = True
        self._guarded("stop", self._end)
        self.live = False
        if get_ident() in self._stale:
            self._guarded("stop", self._sweep)
        self._guarded("stop", self._put_back)
        seconds = perf_counter() - self._started
        ending = {"code": None, "exception": None, **(exit or {}), "seconds": seconds}
        self._say("run.exit", ending, "s")
        _watches.discard(self)

    # -- moments of the run ---------------------------------------------------------------------

    @moment("any")
    def _torch_ready(self) -> None:
        self._torch = torch = sys.modules["torch"]
        self._owner = get_ident()
        self._say("env.torch", environment.torch_facts(torch, threads=False))
        mine = patches.Patches()
        self._options["patches"] = mine
        self._panel.arm(torch, self._tools)
        self._follow_children(mine)
        self._moments = Moments(torch, self)
        self._moments.install()
        patches.opaque(torch, *_ENTRIES)
        self._calls = ModuleCalls(torch, self.module_called)
        self._calls.watch()
        self._make_layer()
        if self._scheduler.examine(0):
            self._open()

    @moment("any")
    def optimizer_begun(self, optimizer: Any) -> None:
        """An optimizer is being built: it can be looked at only when that is done."""
        self._settle_pending()
        self._optimizers += 1
        self._pending.append(weakref.ref(optimizer))

    @moment("training")
    def backward_begins(self, output: Any, accumulates: bool) -> None:
        self._train()
        if self._glimpsing and self._movable():
            self._look_away()
        if accumulates:
            self._backwards += 1
            self._cycles.backward()
            if isinstance(output, self._torch.Tensor):
                self._panel.call("before_backward", output)

    @moment("training")
    def backward_ended(self, output: Any, accumulates: bool) -> None:
        try:
            if accumulates and isinstance(output, self._torch.Tensor):
                self._panel.call("after_backward", output)
            if self._postponed:
                self._step_ends(self._postponed)
        except Breach as breach:  # raised at the next moment: here it would be lost
            self._breach = breach

    @moment("training")
    def update_begins(self, optimizer: Any) -> None:
        self._train()
        self._panel.call("before_update", optimizer, self._examined)

    @moment("training")
    def update_ended(self, optimizer: Any) -> None:
        self._panel.call("after_update", optimizer, self._examined)
        if self._cycles.updated(optimizer):
            self._step_ends("optimizer")

    @moment("training")
    def scale_updated(self, scaler: Any) -> None:
        if self._cycles.rescaled():
            self._step_ends("optimizer")

    @moment("any")
    def compile_called(self) -> None:
        self._compiles += 1
        self._say("watch.compile", {"used": True, "calls": self._compiles})

    @moment("calling")
    def profiler_starts(self, nothing: Any) -> None:
        """The user's profile is to show the user's ops: the op layer makes each of them twice."""
        if self._movable():
            self._leave()

    @moment("calling")
    def gradients_off(self, place: Any) -> None:
        """A block without gradients begins, at a place that is not known well yet.

        An evaluation comes rarely, and mostly in a step that is not examined: its start is looked
        at for a few hundred ops, as far as somebody wants to know of it.
        """
        if self._examined or self._inside or not self._trains or self._glimpses >= GLIMPSES:
            return
        if not self._scheduler.ended or not self._scheduler.share:
            return  # the exam sees what is part of each step, in whole steps
        if self._layer is None or not self._movable():
            return
        core = self._torch._C
        if core._len_torch_dispatch_stack() or core._autograd._profiler_enabled():
            return
        if not self._panel.glimpse(self._step):
            return
        self._glimpses += 1
        self._glimpsing = True
        self._layer_before, self._ops_before = self._layer.seconds, self._layer.ops
        self._layer.enter(self._step)
        self._inside = True

    @moment("calling")
    def module_called(self, module: Any) -> None:
        """Some module (before training and in overdue steps), or one of the root's type."""
        assert self._calls is not None
        if not self._movable():
            return
        if self._overdue:
            self._leave()
        if not self._by_modules():
            return
        everything = self._calls.on is self._torch.nn.Module
        if everything and not self._calls.outermost():
            return
        first = self._roots.anchor is None
        if (everything or module is self._roots.anchor) and self._roots.updated(module):
            if not first:
                self._step_ends("module")
            self._kind = "module"

    def on_op(self, call: Any) -> None:
        """One op of an examined step, for all instruments."""
        self._panel.on_op(call)
        if self._glimpsing:
            if self._layer.ops - self._ops_before >= GLIMPSE and not self._overdue:
                self._guarded("on_op", self._hurry)
        elif self._layer.seconds > self._limit and not self._overdue:
            self._limit = self._most()
            if self._layer.seconds > self._limit:
                self._guarded("on_op", self._hurry)

    # -- steps ----------------------------------------------------------------------------------

    def _admits(self, ident: int, threads: str) -> bool:
        """True when a thread other than the owner may have this moment; it may become the owner.

        The first thread that trains owns the steps until it ends; till then, the first that calls
        a module.
        """
        if threads == "any":
            return True
        if self._moments is not None and not patches.is_python_thread(ident):
            return True  # a thread of the autograd engine: part of the owner's backward pass
        settled = self._trains or (threads == "calling" and self._roots.anchor is not None)
        if settled and self._owner in patches.threads():
            return False
        if self._busy or (self._layer is not None and self._layer.telling):
            return False  # the owner was interrupted while an instrument looks: not now
        if self._inside:  # entered on a thread that does not step
            self._stale.add(self._owner)
            self._layer.leave()
            began = threads == "training" or self._calls is None or not self._calls.outermost()
            if began:  # its forward, or a part of it, was not seen
                self._inside, self._missed = False, True
            else:
                self._layer.enter(self._step)
            if self._calls is not None:
                self._calls.watch()  # that thread will be swept when it calls a module
        self._owner = ident
        return True

    def _pass_over(self) -> None:
        """Another thread trains at the same time; the record says that it was not looked at."""
        self._others.add(get_ident())
        if self._layer is not None:
            self._layer.miss_threads()

    def _sweep(self) -> None:
        """Take a mode of ours that another thread could not take off this one's stack."""
        from reefwatch.gather import mode

        self._stale.discard(get_ident())
        if self._moments is not None and self._moments.movable():
            mode.sweep(self._torch)
        if self._kind == "optimizer" and not self._overdue and self._calls is not None:
            self._calls.stop()

    def _train(self) -> None:
        """There is training, on this thread."""
        self._trains = True
        if self._pending:
            self._settle_pending()

    def _by_modules(self) -> bool:
        """True when calls of modules are the steps: there is no update that could be seen.

        Dynamo leaves hooks out of an `Optimizer.step` that is compiled.
        """
        if self._kind == "optimizer":
            return False
        return not self._optimizers or (self._compiles > 0 and self._backwards > BLIND_BACKWARDS)

    def _step_ends(self, kind: str) -> None:
        """Account for the step that ends now, and begin the next."""
        self._postponed = "" if self._movable() else kind
        if self._postponed:  # an optimizer stepped by a hook of the backward pass
            return
        now = self._mark
        if self._glimpsing:
            self._look_away()
        self._fixed += self._glimpsed
        self._glimpsed = 0.0
        seconds, fixed = now - self._boundary, self._fixed
        examined = self._examined
        new = self._close() if examined else False
        if kind != self._kind:
            self._changed_kind(kind)
        self._steps += 1
        self._panel.call("on_step", self._step, seconds, examined)
        closing = perf_counter() - now
        self._scheduler.step(
            seconds - fixed,
            examined,
            self._layer_seconds() if examined else 0.0,
            max(0.0, fixed - self._carried) + closing,
            new,
        )
        self._carried, self._fixed, self._boundary = closing, 0.0, now
        self._step += 1
        if self._step == 1:
            self._describe_device()
        profiled = self._torch._C._autograd._profiler_enabled()
        examine = not profiled and self._scheduler.examine(self._step)
        looking = self._scheduler.looking
        if self._scheduler.look(self._step, examine) != looking:
            self._panel.look(not looking)
        if examine:
            self._open()
        elif kind == "module" and self._scheduler.ended:
            self._narrow()
        self._tell_status()

    def _movable(self) -> bool:
        """True when the mode stack of the thread that steps can be changed here, for good."""
        assert self._moments is not None
        return get_ident() == self._owner and self._moments.movable()

    def _changed_kind(self, kind: str) -> None:
        if self._kind and self._steps:
            self._scheduler.resettle()
        if kind == "optimizer" and self._calls is not None:
            self._calls.stop()
        self._kind, self._steps, self._counted = kind, 0, True

    def _open(self) -> None:
        self._examined, self._missed = True, False
        self._panel.open(self._step, self._turn)
        self._turn += 1
        if self._layer is not None:
            self._layer_before = self._layer.seconds
            self._limit = self._most()
            self._layer.enter(self._step)
            self._inside = True

    def _most(self) -> float:
        """What the layer's clock may show before the step under way must be left.

        Reaching it by the dispatcher, and what the instruments do when the step closes, cost
        about as much again as the layer itself.
        """
        return float(self._layer_before + self._scheduler.left() / 2.0)

    def _leave(self) -> None:
        if self._inside:
            self._inside = False
            self._layer.leave()
        if self._overdue:
            self._overdue = False
            if self._kind == "optimizer" and self._calls is not None:
                self._calls.stop()

    def _close(self) -> bool:
        self._leave()
        self._examined = False
        return self._panel.close(self._step)

    def _look_away(self) -> None:
        """A glimpse is over."""
        self._leave()
        self._glimpsing = False
        self._panel.close(self._step)
        self._glimpsed += self._layer_seconds()

    def _hurry(self) -> None:
        """The step under way costs too much: leave it at the next call of any module."""
        self._overdue = True
        if self._scheduler.examined == self._cut:  # no step was seen to its end so far
            self._layer.locator.miss("the rest of a step that cost more than was allowed")
        self._cut += 1
        self._layer.mute()
        if self._calls is not None:
            self._calls.watch()

    def _narrow(self) -> None:
        """After the exam of an inference run: look at calls of the root's own type only."""
        assert self._calls is not None
        kind = type(self._roots.anchor)
        if kind is type(None) or kind.__module__.partition(".")[0] == "torch" or self._compiles:
            self._calls.stop()
            self._counted = False
        else:
            self._calls.watch(kind)

    def _layer_seconds(self) -> float:
        return float(self._layer.seconds - self._layer_before) if self._layer else 0.0

    def _settle_pending(self) -> None:
        """Optimizers that were begun are built by now."""
        if self._pending:
            pending, self._pending = self._pending, []
            for reference in pending:
                optimizer = reference()
                if optimizer is not None and hasattr(optimizer, "param_groups"):
                    self._panel.call("on_optimizer", optimizer)
            if self._steps or self._missed or not self._movable():
                return
            if self._overdue:
                self._leave()
            if self._examined and not self._inside and self._layer is not None:
                self._layer.enter(self._step)
                self._inside = True

    # -- beginning and end ----------------------------------------------------------------------

    def _tools(self, contract: str) -> Tools:
        strict = contract in self._strict or "all" in self._strict
        referee = self._referee if strict else None
        return Tools(self._torch, self._gate, perf_counter, referee, self._options)

    def _make_layer(self) -> None:
        from reefwatch.gather.ops import OpLayer

        wanting = [guard.name for guard in self._panel.guards if guard.instrument.wants_ops]
        if wanting:
            self._layer = OpLayer(self._tools(""), [_Listener(self)])
            if any(guard.instrument.wants_before for guard in self._panel.guards):
                self._layer.ahead = self._panel.before_op

    def _follow_children(self, mine: patches.Patches) -> None:
        plan = self._options.get("spawned")
        if plan is not None:
            from reefwatch.gather import children

            self._children = children.install(mine, plan)

    def _end(self) -> None:
        if self._torch is None:
            return
        self._settle_pending()
        self._mark = perf_counter()
        if self._kind == "module" and self._counted and self._roots.anchor is not None:
            self._step_ends("module")
        if self._examined:
            self._close()
        if self._glimpsing:
            self._look_away()
        self._scheduler.finish()
        self._panel.disarm()
        self._totals()

    def _put_back(self) -> None:
        self._import.stop()
        for part in (self._moments and self._moments.remove, self._calls and self._calls.stop):
            if part:
                part()
        if self._torch is not None:
            from reefwatch.gather.regions import unfollow

            unfollow(self._tools(""))
        mine = self._options.pop("patches", None)
        if mine is not None:
            mine.restore()

    def _totals(self) -> None:
        self._describe_device()
        if self._ended_by:
            self._gate.fact("run.steps", Unknown(self._ended_by))
        elif not self._counted:
            why = "calls of the model were not counted after the exam"
            self._gate.fact("run.steps", Unknown(why))
        elif self._steps:
            self._say("run.steps", {"count": self._steps, "kind": self._kind}, "steps")
        children = self._children() if self._children else {"spawned": 0, "watched": 0}
        children = {**children, "spawned": children["spawned"] + self.forks}
        self._say("env.torch", environment.torch_facts(self._torch, threads=True))
        self._say("watch.children", children)
        others = len(self._others - {self._owner})
        self._say("watch.threads", {"training": 1 + others, "watched": 1})
        self._say("watch.compile", {"used": self._compiles > 0, "calls": self._compiles})
        for name, value in self._scheduler.facts().items():
            self._say(name, value if name != "watch.exam" else {**value, "cut": self._cut})
        looked = max(1, self._scheduler.examined)
        self._say("watch.cost", {g.name: g.seconds / looked for g in self._panel.guards}, "s")

    def _describe_device(self) -> None:
        self._say("env.device", environment.device_facts(self._torch))

    def _say(self, name: str, value: Json, unit: str = "") -> None:
        self._gate.fact(name, Evidence(name, value, unit, source="watch"))

    def _tell_status(self) -> None:
        if self._on_status is None or self._mark - self._said < STATUS_SECONDS:
            return
        self._said = self._mark
        status = {
            "step": self._steps,
            "kind": self._kind,
            "exam": not self._scheduler.ended,
            "examined": self._scheduler.examined,
            "step_seconds": self._scheduler.plain_seconds(),
        }
        try:
            self._on_status(status)
        except Exception as error:
            self._on_status = None
            self._record("status", "on_status", error)

    def _guarded(self, where: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._record("watch", where, error)

    def _record(self, name: str, where: str, error: Exception) -> None:
        value = describe(error, where, self._step)
        self._gate.fact(f"errored.{name}", Evidence(f"errored.{name}", value))

    def _fail(self, where: str, error: Exception) -> None:
        """A failure of our own: say so and look at nothing more."""
        self._record("watch", where, error)
        self._ended_by = f"the watch failed in step {self._step}: {type(error).__name__}"
        self._gate.fact("run.steps", Unknown(self._ended_by))
        self._guarded(where, self._leave)
        self._guarded(where, self._panel.disarm)
        self._scheduler.finish()
        self._guarded(where, self._put_back)
        self._examined = False

    def _abandon(self) -> None:
        """In a forked child: it is not watched, and everything is as without us."""
        self.live = self._gate.open = False
        if self._inside:
            self._inside = False
            self._guarded("fork", self._layer.leave)
        self._guarded("fork", self._put_back)


class _Listener(Instrument):
    """What the op layer talks to."""

    name = "watch"
    wants_ops = True

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def on_op(self, call: Any) -> None:
        self._watch.on_op(call)


_ENTRIES: tuple[Any, ...] = (Watch._torch_ready,)
_watches: weakref.WeakSet[Watch] = weakref.WeakSet()


def _in_parent() -> None:
    for watch in list(_watches):
        watch.forks += watch.live


def _in_child() -> None:
    if _watches:
        patches.restore_all()
    for watch in list(_watches):
        watch._abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_in_parent, after_in_child=_in_child)
