"""Between the watch and an instrument: its failures stay here, its time is counted."""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence, Fact
from reefwatch.core.ports import Sink
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.key import shut
from reefwatch.gather.patches import perf_counter

_getsignal, _SIGNALS = signal.getsignal, signal.valid_signals()  # kept: the program may mock them


def describe(error: BaseException, moment: str, step: int) -> dict[str, Any]:
    """An `errored.<name>` value: what was raised, where, in which step."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f", {PurePath(frame.filename).name}:{frame.lineno}" for frame in last)
    return {"error": f"{type(error).__name__}: {error}", "where": moment + where, "step": step}


def of_the_program(error: BaseException) -> bool:
    """True when a signal handler of the program raised it, just while we were at work.

    An alarm that ends a step which takes too long must end it, wherever it comes.
    """
    handlers = {getattr(_getsignal(number), "__code__", None) for number in _SIGNALS} - {None}
    link = error.__traceback__ if handlers else None
    while link is not None:
        if link.tb_frame.f_code in handlers:
            return True
        link = link.tb_next
    return False


class Gate:
    """The sink, for as long as this process is the one that is watched."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.open = True

    def fact(self, name: str, fact: Fact) -> None:
        if self.open:
            self._sink.fact(name, fact)

    def event(
        self, kind: str, data: Mapping[str, Any], *, step: int | None = None, id: str | None = None
    ) -> None:
        if self.open:
            self._sink.event(kind, data, step=step, id=id)

    def tensor(self, name: str, raw: bytes, dtype: str, shape: tuple[int, ...]) -> None:
        if self.open:
            self._sink.tensor(name, raw, dtype, shape)


class Guard:
    """One instrument, which can fail without harm."""

    def __init__(self, instrument: Instrument, sink: Sink) -> None:
        self.instrument = instrument
        self.name = instrument.name or type(instrument).__name__
        self.seconds = 0.0
        self.on = True
        self.looking = False
        """True while a step is open for this instrument."""
        self.step = 0
        self._sink = sink

    def heeds(self, moment: str) -> bool:
        """True when the instrument does anything at this moment."""
        return getattr(type(self.instrument), moment) is not getattr(Instrument, moment)

    def call(self, moment: str, *args: Any) -> Any:
        """What the instrument's `moment` returns; None when it is off or fails."""
        if not self.on:
            return None
        start = perf_counter()
        try:
            return getattr(self.instrument, moment)(*args)
        except Breach:
            raise
        except Exception as error:
            if of_the_program(error):
                raise
            self.fail(moment, error)
            return None
        finally:
            self.seconds += perf_counter() - start

    def fail(self, moment: str, error: Exception) -> None:
        """Turn the instrument off and say so."""
        self.on = self.looking = False
        value = describe(error, moment, self.step)
        self._sink.fact(f"errored.{self.name}", Evidence(f"errored.{self.name}", value))
        with contextlib.suppress(Exception):  # the first failure is the one that is told
            self.instrument.release()


class Shield:
    """A context in which torch ops are seen by no mode, graph or profiler of the user's.

    `grad` leaves the grad mode as it is: an op is told below autograd, and with its grad mode.
    """

    __slots__ = ("_contexts", "_core", "_grad", "_keep", "_profiled", "_torch")

    def __init__(self, torch: Any, grad: bool = False) -> None:
        self._torch, self._core, self._keep = torch, torch._C, grad

    def __enter__(self) -> None:
        core = self._core
        self._contexts: tuple[Any, ...] = ()
        # What fails here (another torch) or is interrupted (Ctrl-C) leaves the run as it was.
        self._grad, self._profiled = self._torch.is_grad_enabled(), False
        try:
            # These two take longer than all the rest; mostly there is no mode. A function mode
            # would also see the change of the grad mode.
            key = shut()
            if key or core._len_torch_dispatch_stack() or core._len_torch_function_stack():
                self._contexts = core.DisableTorchFunction(), core._DisableTorchDispatch()
                self._contexts += (key,) if key else ()
                for context in self._contexts:
                    context.__enter__()
            core._set_grad_enabled(self._keep and self._grad)
            self._profiled = core._autograd._profiler_enabled()
            if self._profiled:
                core._autograd._enable_record_function(False)
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: Any) -> None:
        try:
            self._leave()
        except KeyboardInterrupt:
            self._leave()  # it came in between, and all of it can be done again
            raise

    def _leave(self) -> None:
        core = self._core
        core._set_grad_enabled(self._grad)
        if self._profiled:
            core._autograd._enable_record_function(True)
            self._profiled = False
        while self._contexts:
            *rest, context = self._contexts
            self._contexts = tuple(rest)
            context.__exit__(None, None, None)


_Heeding = tuple[Guard, Callable[..., None]]
"""An instrument in its guard, and what it does at one moment."""


class Panel:
    """All instruments, called together at each moment; those that do nothing there are skipped."""

    def __init__(self, instruments: list[Instrument], sink: Sink) -> None:
        self.guards = [Guard(instrument, sink) for instrument in instruments]
        self._heeding: dict[str, list[_Heeding]] = {}
        self._hearing: dict[tuple[int, str], list[_Heeding]] = {}
        """Who hears an op of a phase, in the step that is open."""
        self._torch: Any = None

    def arm(self, torch: Any, tools: Callable[[str], Tools]) -> None:
        """Torch is there."""
        self._torch = torch
        self._tensor = torch.Tensor
        self._is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        for guard in self.guards:
            guard.call("arm", tools(guard.instrument.contract))

    def call(self, moment: str, *args: Any) -> None:
        """Every instrument's `moment`, in order."""
        heeding = self._heeding.get(moment)
        if heeding is None:
            heeding = self._heeding[moment] = [
                (g, getattr(g.instrument, moment)) for g in self.guards if g.heeds(moment)
            ]
        if heeding:
            with Shield(self._torch):
                self._each(heeding, moment, args)

    def _each(self, heeding: list[_Heeding], moment: str, args: tuple[Any, ...]) -> None:
        """As `Guard.call` for each; here, because it comes several times in every step."""
        before = perf_counter()
        for guard, act in heeding:
            if guard.on:
                try:
                    act(*args)
                except Breach:
                    raise
                except Exception as error:
                    if of_the_program(error):
                        raise
                    guard.fail(moment, error)
                finally:
                    now = perf_counter()
                    guard.seconds += now - before
                    before = now

    def look(self, looking: bool) -> None:
        """Whether the instruments look at the step that begins, or pass it over."""
        for guard in self.guards:
            guard.instrument.passing = not looking

    def open(self, step: int, turn: int, alone: bool = False) -> None:
        """Begin an examined step for those whose turn it is; `alone`, for the reference only."""
        with Shield(self._torch):
            self._hearing.clear()
            for guard in self.guards:
                guard.step = step
                guard.looking = guard.on and turn % guard.instrument.every == 0
                guard.looking &= guard.instrument.on_ladder or not alone
                if guard.looking:
                    guard.call("open", step)

    def glimpse(self, step: int) -> bool:
        """Let those that want it look at what follows. True when there are any."""
        wanting = [g for g in self.guards if g.on and g.instrument.wants_glimpse()]
        self._hearing.clear()
        for guard in wanting:
            guard.step, guard.looking = step, True
            guard.call("glimpse", step)
        return bool(wanting)

    def close(self, step: int) -> bool:
        """End the examined step. True when any instrument learned something new."""
        with Shield(self._torch):
            learned = [guard.call("close", step) for guard in self.guards if guard.looking]
        for guard in self.guards:
            guard.looking = False
        return any(learned)

    def on_op(self, call: Any) -> None:
        """One op, for those that look and want to hear of it."""
        hearing = self._hearing.get((id(call.func), call.site.phase))
        if hearing is None:
            hearing = self._hear(call)
        if not hearing:
            return
        for arg in call.args:
            if isinstance(arg, self._tensor) and self._is_wrapped(arg):
                hearing = [(g, act) for g, act in hearing if g.instrument.wrapped]
                break
        if self._seen():
            with Shield(self._torch, grad=True):
                self._each(hearing, "on_op", (call,))
        else:
            self._each(hearing, "on_op", (call,))

    def _hear(self, call: Any) -> list[_Heeding]:
        func, name, phase = call.func, call.name, call.site.phase
        hearing = self._hearing[id(func), phase] = [
            (guard, guard.instrument.on_op)
            for guard in self.guards
            if guard.looking
            and guard.instrument.wants_ops
            and guard.instrument.hears(func, name, phase)
        ]
        return hearing

    def before_op(self, func: Any, args: Any, kwargs: Any) -> None:
        """One op that is about to run, for those that look."""
        with Shield(self._torch):
            for guard in self.guards:
                if guard.looking and guard.instrument.wants_before:
                    guard.call("before_op", func, args, kwargs)

    def _seen(self) -> bool:
        """True when a mode or profiler of the user's is on; ours is off while an op is told."""
        core = self._torch._C
        return bool(
            core._len_torch_dispatch_stack()
            or core._len_torch_function_stack()
            or core._autograd._profiler_enabled()
        )

    def disarm(self) -> None:
        """In reverse order."""
        if self._torch is None:
            return
        with Shield(self._torch):
            for guard in reversed(self.guards):
                guard.call("disarm")
