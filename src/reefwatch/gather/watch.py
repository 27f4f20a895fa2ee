"""Starts the instruments in order, finds the steps, stops the instruments in reverse."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.ports import Referee, Sink
from reefwatch.gather import environment, forks, patches, totals
from reefwatch.gather.budget import Scheduler
from reefwatch.gather.guard import Gate, Panel, of_the_program
from reefwatch.gather.imports import PostImport
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.moment import moment
from reefwatch.gather.moments import ModuleCalls, Moments
from reefwatch.gather.owner import Owner
from reefwatch.gather.patches import get_ident, perf_counter
from reefwatch.gather.steps import Cycles
from reefwatch.gather.totals import Teller
from reefwatch.gather.window import Window

BLIND_BACKWARDS = 8
"""Backward passes without an update, where something was compiled, after which none is awaited."""
TOLD = 1.25
"""After the exam, totals are written whenever the steps are so many times those of the last time:
a run that is killed leaves them."""


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
        self._window = Window(self._panel, self._scheduler, self._hurry, self._rest)
        self._owner = Owner(self)
        self._teller = Teller(self._gate, on_status)
        self._scheduler.wanted = frozenset((options or {}).get("ladder", ()))
        self._cycles = Cycles()
        self._roots = Cycles()
        self._strict = frozenset(strict)
        self._referee = referee
        self._options = {} if options is None else options
        self._import = PostImport("torch", self._torch_ready)
        self._stopped = False
        self._busy = 0
        self._breach: Breach | None = None
        self._torch: Any = None
        self._moments: Moments | None = None
        self._calls: ModuleCalls | None = None
        self._children: Callable[[], dict[str, int]] | None = None
        self._pending: list[weakref.ref[Any]] = []
        self._optimizers = self._backwards = self._compiles = 0
        self._trains = False
        self._kind = ""
        self._counted = True
        """False when steps went on but could no longer be counted."""
        self._steps = 0
        """Steps of this kind that have ended."""
        self._step = 0
        """Number of the step under way."""
        self._postponed = ""
        """The kind of a step that ended where the op layer cannot be left."""
        self._mark = self._boundary = self._started = perf_counter()
        self._fixed = self._carried = 0.0
        self._told = 0
        """Steps of this kind up to which the totals were written."""
        self._ended_by = ""
        """What ended the watch before the run was over."""

    def start(self) -> None:
        """Begin; torch is followed from the moment that the script has imported it."""
        self._started = self._boundary = perf_counter()
        self.live = True
        forks.watches.add(self)
        self._gate.fact("env.torch", Unknown("torch was not imported by the script"))
        self._gate.fact("run.steps", Unknown("no step was seen"))
        none = Evidence("trainer.asked", False, source="no trainer told what it was asked for")
        self._gate.fact("trainer.asked", none)
        self._import.start()

    def stop(self, exit: Mapping[str, Any] | None = None) -> None:
        """End: close what is open, put everything back, write the totals. Idempotent.

        `exit` is `{"code", "exception"}`. Does nothing in a forked child.
        """
        if self._stopped or not self.live:
            return
        self._stopped = True
        self._busy = get_ident()  # what the instruments do at the end is no moment of the run
        try:
            self._guarded("stop", self._end)
        finally:  # whatever interrupts that: nothing of ours may stay
            self.live = False
            self._guarded("stop", self._window.leave)
            if get_ident() in self._owner.stale:
                self._guarded("stop", self._owner.sweep)
            self._guarded("stop", self._put_back)
        seconds = perf_counter() - self._started
        ending = {"code": None, "exception": None, **(exit or {}), "seconds": seconds}
        self._teller.say("run.exit", ending, "s")
        forks.watches.discard(self)

    @moment("any")
    def _torch_ready(self) -> None:
        self._torch = torch = sys.modules["torch"]
        self._owner.thread = get_ident()
        self._teller.say("env.torch", environment.torch_facts(torch, threads=False))
        mine = patches.Patches()
        self._options["patches"] = mine
        self._options["aside"] = self._aside
        self._panel.arm(torch, self._tools)
        self._follow_children(mine)
        self._moments = Moments(torch, self)
        self._moments.install()
        patches.opaque(torch, Watch._torch_ready)
        self._calls = ModuleCalls(torch, self.module_called)
        self._calls.watch()
        self._make_layer(mine)
        if self._scheduler.examine(0):
            self._window.open(self._step)

    @moment("any")
    def optimizer_begun(self, optimizer: Any) -> None:
        """An optimizer is being built: it can be looked at only when that is done."""
        self._settle_pending()
        self._optimizers += 1
        self._pending.append(weakref.ref(optimizer))

    @moment("training")
    def backward_begins(self, output: Any, accumulates: bool) -> None:
        self._train()
        if self._window.glimpsing and self._movable():
            self._window.look_away(self._step)
        if self._window.inside and self._window.layer.shy_backward and self._movable():
            self._window.leave()
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
    def tell(self) -> None:
        """Somebody wants to judge the run so far."""
        self._panel.call("tell")
        self._totals()

    @moment("training")
    def gradients_ready(self, optimizer: Any) -> None:
        """A trainer says that the gradients are complete, and what it does to them comes now."""
        self._panel.call("before_clip", optimizer)

    @moment("training")
    def update_begins(self, optimizer: Any) -> None:
        self._train()
        self._panel.call("before_update", optimizer, self._window.examined)

    @moment("training")
    def update_ended(self, optimizer: Any) -> None:
        self._panel.call("after_update", optimizer, self._window.examined)
        if self._cycles.updated(optimizer):
            self._step_ends("optimizer")

    @moment("training")
    def scale_updated(self, scaler: Any) -> None:
        if self._cycles.rescaled():
            self._step_ends("optimizer")

    @moment("any")
    def compile_called(self) -> None:
        self._compiles += 1
        self._yield()
        self._teller.say("watch.compile", {"used": True, "calls": self._compiles})

    @moment("any")
    def mode_pushed(self, nothing: Any = None) -> None:
        """A dispatch mode of the program's is about to be on, or a tensor class that dispatches."""
        self._yield()

    def _yield(self) -> None:
        if self._window.layer is not None:
            self._window.layer.yields(get_ident() == self._owner.thread and self._movable())

    @moment("calling")
    def profiler_starts(self, nothing: Any) -> None:
        """The user's profile is to show the user's ops: the op layer makes each of them twice."""
        if self._movable():
            self._window.leave()

    @moment("calling")
    def gradients_off(self, place: Any) -> None:
        """A block without gradients begins, at a place that is not known well yet.

        An evaluation comes rarely, and mostly in a step that is not examined: its start is looked
        at for a few hundred ops, as far as somebody wants to know of it.
        """
        if not self._trains or not self._window.may_glimpse() or not self._movable():
            return
        core = self._torch._C
        if not core._len_torch_dispatch_stack() and not core._autograd._profiler_enabled():
            self._window.glimpse(self._step)

    @moment("calling")
    def module_called(self, module: Any) -> None:
        """Some module (before training and in overdue steps), or one of the root's type."""
        assert self._calls is not None
        if not self._movable():
            return
        if self._window.overdue:
            self._window.leave()
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
        if self._window.glimpsing:
            self._window.look_away(self._step)
        self._fixed += self._window.take_glimpsed()
        seconds, fixed = now - self._boundary, self._fixed
        examined = self._window.examined
        new = self._window.close(self._step) if examined else False
        if kind != self._kind:
            self._changed_kind(kind)
        self._steps += 1
        self._panel.call("on_step", self._step, seconds, examined)
        if self._scheduler.ended and self._steps > TOLD * self._told:
            self._told = self._steps
            self._panel.call("tell")
            self._totals()
        closing = perf_counter() - now
        self._scheduler.step(
            seconds - fixed,
            examined,
            self._window.seconds() if examined else 0.0,
            max(0.0, fixed - self._carried) + closing,
            new,
        )
        self._carried, self._fixed, self._boundary = closing, 0.0, now
        self._step += 1
        if self._step == 1:
            self._teller.say("env.device", environment.device_facts(self._torch))
        profiled = self._torch._C._autograd._profiler_enabled()
        examine = not profiled and self._scheduler.examine(self._step)
        looking = self._scheduler.looking
        if self._scheduler.look(self._step, examine) != looking:
            self._panel.look(not looking)
        if examine:
            self._window.open(self._step)
        elif kind == "module" and self._scheduler.ended:
            assert self._calls is not None
            self._counted = self._calls.narrow(self._roots.anchor, self._compiles > 0)
        self._teller.status(self)

    def _movable(self) -> bool:
        """True when the mode stack of the thread that steps can be changed here, for good."""
        assert self._moments is not None
        return get_ident() == self._owner.thread and self._moments.movable()

    def _changed_kind(self, kind: str) -> None:
        if self._kind and self._steps:
            self._scheduler.resettle()
        if kind == "optimizer" and self._calls is not None:
            self._calls.stop()
        self._kind, self._steps, self._counted, self._told = kind, 0, True, 0

    def _hurry(self) -> None:
        """The step under way costs too much: leave it at the next call of any module."""
        if self._calls is not None:
            self._calls.watch()

    def _rest(self) -> None:
        """Calls of modules are of no interest where steps are counted by updates."""
        if self._kind == "optimizer" and self._calls is not None:
            self._calls.stop()

    def _settle_pending(self) -> None:
        """Optimizers that were begun are built by now."""
        if self._pending:
            pending, self._pending = self._pending, []
            for reference in pending:
                optimizer = reference()
                if optimizer is not None and hasattr(optimizer, "param_groups"):
                    self._panel.call("on_optimizer", optimizer)
            if self._steps or self._window.missed or not self._movable():
                return
            if self._window.overdue:
                self._window.leave()
            window = self._window
            if window.examined and not window.inside and window.layer is not None:
                window.enter(self._step)

    def _tools(self, contract: str) -> Tools:
        strict = contract in self._strict or "all" in self._strict
        referee = self._referee if strict else None
        return Tools(self._torch, self._gate, perf_counter, referee, self._options)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """What is done inside is no part of the run: it is timed, and no moment is told."""
        before, self._busy = self._busy, get_ident()
        began = perf_counter()
        try:
            yield
        finally:
            self._busy = before
            self._fixed += perf_counter() - began

    def _make_layer(self, mine: patches.Patches) -> None:
        from reefwatch.gather.ops import OpLayer

        wanting = [guard.name for guard in self._panel.guards if guard.instrument.wants_ops]
        if wanting:
            self._window.layer = OpLayer(self._tools(""), [self._window])
            self._window.layer.follow_classes(mine, self.mode_pushed)
            if any(guard.instrument.wants_before for guard in self._panel.guards):
                self._window.layer.ahead = self._panel.before_op

    def _follow_children(self, mine: patches.Patches) -> None:
        plan = self._options.get("spawned")
        if plan is not None:
            from reefwatch.gather import children

            self._children = children.install(mine, plan)

    def _end(self) -> None:
        if self._torch is None:
            if self._import.failed:
                self._gate.fact("env.torch", Unknown("torch could not be imported by the script"))
            return
        self._settle_pending()
        self._mark = perf_counter()
        if self._kind == "module" and self._counted and self._roots.anchor is not None:
            self._step_ends("module")
        if self._window.examined:
            self._window.close(self._step)
        if self._window.glimpsing:
            self._window.look_away(self._step)
        self._scheduler.finish()
        self._panel.disarm()
        self._teller.say("env.torch", environment.torch_facts(self._torch, threads=True))
        self._totals()

    def _put_back(self) -> None:
        self._import.stop()
        mine = self._options.pop("patches", None)
        parts = [
            self._moments and self._moments.remove,
            self._calls and self._calls.stop,
            self._torch and self._unfollow,
            mine and mine.restore,
        ]
        for part in parts:
            if part:
                self._guarded("stop", part)

    def _unfollow(self) -> None:
        from reefwatch.gather.regions import unfollow

        unfollow(self._tools(""))

    def _totals(self) -> None:
        if self._ended_by:
            self._gate.fact("run.steps", Unknown(self._ended_by))
        elif not self._counted:
            why = "calls of the model were not counted after the exam"
            self._gate.fact("run.steps", Unknown(why))
        elif self._steps:
            self._teller.say("run.steps", {"count": self._steps, "kind": self._kind}, "steps")
        for name, value in totals.facts(self).items():
            self._teller.say(name, value, "s" if name == "watch.cost" else "")

    def _guarded(self, where: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            if of_the_program(error):
                raise
            if not self._ended_by:  # else it follows from what was recorded already
                self._teller.fail("watch", where, error, self._step)

    def _fail(self, where: str, error: Exception) -> None:
        """A failure of our own: say so and look at nothing more."""
        self._teller.fail("watch", where, error, self._step)
        self._ended_by = f"the watch failed in step {self._step}: {type(error).__name__}"
        self._gate.fact("run.steps", Unknown(self._ended_by))
        self._guarded(where, self._window.leave)
        self._guarded(where, self._panel.disarm)
        self._scheduler.finish()
        self._guarded(where, self._put_back)
        self._window.examined = False

    def abandon(self) -> None:
        """In a forked child: it is not watched, and everything is as without us."""
        self.live = self._gate.open = False
        if self._window.inside:
            self._window.inside = False
            self._guarded("fork", self._window.layer.leave)
        self._guarded("fork", self._put_back)
