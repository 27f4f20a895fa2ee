"""The op layer: one dispatch mode, many listeners; on in examined steps only."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence
from reefwatch.gather.frames import Modules, Site
from reefwatch.gather.guard import describe
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.locate import SHY_FORWARD, Locator
from reefwatch.gather.mode import make_mode
from reefwatch.gather.patches import get_ident
from reefwatch.gather.regions import follow

OTHER_THREADS = "what other threads run"
"""In `OpLayer.unseen` when more threads than the watched one trained."""


class OpCall:
    """One dispatched op, as handed to `Instrument.on_op`. Reused between ops: keep nothing of it.

    `name` is `aten.mm.default`. `module`, `file`, `line` tell where the forward op came from, for
    a backward op too. `phase` is forward, backward, optimizer or setup. `autocast` is the state
    at the call (`bf16`, `f16`, `off`), `region` the dtype of the low-precision region around it
    or None; a backward op has those of its forward op. `site` holds the same and is one object
    per place and state, so it can be a key. `frame` and `lasti` tell the calls of the program
    apart: ops with equal ones, one after the other, belong to one call.
    """

    __slots__ = (
        "args",
        "frame",
        "func",
        "kwargs",
        "lasti",
        "layer",
        "name",
        "out",
        "site",
        "step",
    )
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any
    name: str
    step: int
    site: Site
    frame: int
    lasti: int
    layer: OpLayer

    @property
    def module(self) -> str:
        return self.site.module

    @property
    def file(self) -> str:
        return self.site.file

    @property
    def line(self) -> int:
        return self.site.line

    @property
    def phase(self) -> str:
        return self.site.phase

    @property
    def autocast(self) -> str:
        return self.site.autocast

    @property
    def region(self) -> str | None:
        return self.site.region


class OpLayer:
    """The dispatch mode with its place in the mode stack. See docs/decisions/0001.

    `phase` follows the step by itself (`setup`, `forward`, `backward`); the Watch may set it, to
    `optimizer` around an update of an optimizer that is not torch's.
    `seconds` is the time spent in it so far, without what the dispatcher takes to reach it.
    """

    def __init__(self, tools: Tools, listeners: Sequence[Instrument]) -> None:
        self.seconds = 0.0
        self.ops = 0
        self.telling = False
        """True while the thread that steps tells of an op."""
        self.ahead: Callable[[Any, Any, Any], None] | None = None
        """Told of each op before it runs, if anybody wants that."""
        self.locator = Locator(tools.torch, follow(tools))
        self._shy = False
        self._tools = tools
        self._torch = tools.torch
        self._listeners = list(listeners)
        self._step = 0
        self._thread = 0
        self._mode: Any = None
        self._call = OpCall()
        _forget_after_fork(self)

    @property
    def phase(self) -> str:
        return self.locator.phase

    @phase.setter
    def phase(self, phase: str) -> None:
        self.locator.phase = phase

    @property
    def modules(self) -> Modules:
        return self.locator.modules

    @property
    def unseen(self) -> dict[str, int]:
        """What ran where the layer could not look, with how often it was met."""
        return self.locator.unseen

    @property
    def shy_backward(self) -> bool:
        """True when the backward of this step has to run without the layer."""
        return self.locator.shy_backward

    def miss_threads(self) -> None:
        """Note that another thread trains at the same time."""
        self.locator.miss(OTHER_THREADS)

    @property
    def open(self) -> bool:
        return self._mode is not None

    def enter(self, step: int) -> None:
        """Push the mode at the bottom of the calling thread's mode stack."""
        from torch.utils._python_dispatch import _pop_mode, _push_mode

        if self._mode is not None:
            self.leave()
        if self._shy:
            return
        self._step, self._thread = step, get_ident()
        self._call = OpCall()  # another thread may still be telling of its last op with the old one
        self._call.layer, self._call.step = self, step
        self.locator.begin()
        mode = make_mode(self._torch, self, self._tools.clock)
        above = [_pop_mode() for _ in range(self._torch._C._len_torch_dispatch_stack())]
        _push_mode(mode)
        for other in reversed(above):
            _push_mode(other)
        self._mode = mode

    def leave(self) -> None:
        """Take the mode off the calling thread's stack, wherever it lies; others stay in order."""
        from torch.utils._python_dispatch import _pop_mode, _push_mode

        mode, self._mode = self._mode, None
        if mode is None:
            return
        mode.layer = None  # should it lie on another thread's stack, it is inert from here on
        above = []
        while self._torch._C._len_torch_dispatch_stack():
            other = _pop_mode()
            if other is mode:
                break
            above.append(other)
        for other in reversed(above):
            _push_mode(other)

    def mute(self) -> None:
        """Look at no more ops of this step, wherever the mode lies: it only passes them on."""
        if self._mode is not None:
            self._mode.layer = None

    def drop(self, listener: Instrument, error: Exception) -> None:
        """A listener failed: it hears no more, and the record says so."""
        self._listeners = [kept for kept in self._listeners if kept is not listener]
        value = describe(error, "on_op", self._step)
        self._tools.sink.fact(
            f"errored.{listener.name}", Evidence(f"errored.{listener.name}", value)
        )

    def observe(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Any,
        frame: FrameType | None,
    ) -> None:
        """Tell the listeners about one op. Raises Breach, nothing else."""
        mine = get_ident() == self._thread
        # autograd runs each device on a thread of its own; any other is none of this step's
        if not mine and self._torch._C._current_autograd_node() is None:
            self.locator.miss(OTHER_THREADS)
            return
        self.telling = True
        try:
            self._observe(func, args, kwargs, out, frame, mine)
        finally:
            self.telling = False

    def _observe(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Any,
        frame: FrameType | None,
        mine: bool,
    ) -> None:
        locator = self.locator
        try:
            known = locator.ops.get(id(func)) or locator.learn(func)
            site = locator.locate(frame, out, known)
        except Exception as error:
            for listener in self._listeners:
                self.drop(listener, error)
            return
        self.ops += 1
        if known.node in SHY_FORWARD and not self._shy:
            self._shy = True
            locator.miss(f"later steps: {known.name} runs otherwise when looked at")
        call = self._call
        if not mine:
            call = OpCall()
            call.layer, call.step = self, self._step
        call.func, call.args, call.kwargs, call.out = func, args, kwargs, out
        call.name = known.name
        call.site = site
        call.frame, call.lasti = (0, 0) if frame is None else (id(frame), frame.f_lasti)
        try:
            for listener in self._listeners:
                try:
                    listener.on_op(call)
                except Breach:
                    raise
                except Exception as error:
                    self.drop(listener, error)
        finally:
            # a reference kept here would change the use counts that autograd looks at
            call.args = call.kwargs = call.out = None  # type: ignore[assignment]


_LAYERS: weakref.WeakSet[OpLayer] = weakref.WeakSet()


def _leave_all() -> None:
    for layer in list(_LAYERS):
        layer.leave()


def _forget_after_fork(layer: OpLayer) -> None:
    """A forked child (a data loader's worker) is not examined."""
    if not _LAYERS and hasattr(os, "register_at_fork") and not _forget_after_fork.__dict__:
        os.register_at_fork(after_in_child=_leave_all)
        _forget_after_fork.__dict__["done"] = True
    _LAYERS.add(layer)
