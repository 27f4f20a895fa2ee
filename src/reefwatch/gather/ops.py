"""The op layer: one place where each op passes, many listeners; on in examined steps only."""

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
from reefwatch.gather.key import Key, find, is_compiled, is_in_use
from reefwatch.gather.locate import SHY_FORWARD, Locator
from reefwatch.gather.mode import Mode
from reefwatch.gather.patches import Patches, get_ident
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
    """Where ops are seen: a dispatch key, or a dispatch mode where that cannot be.

    See docs/decisions/0001 and 0004. With `key=False` it is the mode from the start.
    `phase` follows the step by itself (`setup`, `forward`, `backward`); the Watch may set it, to
    `optimizer` around an update of an optimizer that is not torch's.
    `seconds` is the time spent in it so far, without what the dispatcher takes to reach it.
    """

    def __init__(self, tools: Tools, listeners: Sequence[Instrument], *, key: bool = True) -> None:
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
        self._mode = Mode(tools.torch, tools.clock)
        self._key = find(tools.torch, tools.clock) if key else None
        self._eye: Mode | Key | None = None
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
        return self.locator.shy_backward and self._eye is self._mode

    def miss_threads(self) -> None:
        """Note that another thread trains at the same time."""
        self.locator.miss(OTHER_THREADS)

    @property
    def open(self) -> bool:
        return self._eye is not None

    def enter(self, step: int) -> None:
        """See the ops of the calling thread from here on."""
        if self._eye is not None:
            self.leave()
        self._step, self._thread = step, get_ident()
        self._call = OpCall()  # another thread may still be telling of its last op with the old one
        self._call.layer, self._call.step = self, step
        self.locator.begin()
        if self._key is not None and (is_compiled(self._torch) or is_in_use(self._torch)):
            self._key = None
        self._look()

    def _look(self) -> None:
        if self._key is not None and self._key.enter(self):
            self._eye = self._key
        elif not self._shy:
            self.locator.shy = True
            self._mode.enter(self)
            self._eye = self._mode

    def follow_classes(self, patches: Patches, dispatching: Callable[[], None]) -> None:
        """Learn of tensor subclasses that the program defines."""
        if self._key is not None:
            self._key.follow_classes(patches, dispatching)

    def yields(self, movable: bool) -> None:
        """The key must be left for the mode: the program compiles, or dispatches in Python itself.

        `movable` tells whether the calling thread is the one that is looked at, and can be left.
        """
        key, self._key = self._key, None
        if key is None or self._eye is not key:
            return
        muted = key.layer is None
        if movable:
            key.leave()
            self._look()
        if muted or not movable:
            self.mute()

    def leave(self) -> None:
        """Look at no more ops, and put the calling thread back as it was."""
        eye, self._eye = self._eye, None
        if eye is not None:
            eye.leave()

    def mute(self) -> None:
        """Look at no more ops of this step, on whatever thread: they are only passed on."""
        if self._eye is not None:
            self._eye.layer = None

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
        call = self._call
        try:
            locator = self.locator
            known = locator.ops.get(id(func)) or locator.learn(func)
            site = locator.locate(frame, out, known)
            self.ops += 1
            if locator.shy and known.node in SHY_FORWARD and not self._shy:
                self._shy = True
                locator.miss(f"later steps: {known.name} runs otherwise when looked at")
            if not mine:
                call = OpCall()
                call.layer, call.step = self, self._step
            call.func, call.args, call.kwargs, call.out = func, args, kwargs, out
            call.name, call.site = known.name, site
            call.frame, call.lasti = (0, 0) if frame is None else (id(frame), frame.f_lasti)
            self._tell(call)
        except Breach:
            raise
        except Exception as error:
            for listener in self._listeners:
                self.drop(listener, error)
        finally:
            # a reference kept here would change the use counts that autograd looks at
            call.args = call.kwargs = call.out = None  # type: ignore[assignment]
            self.telling = False

    def _tell(self, call: OpCall) -> None:
        for listener in self._listeners:
            try:
                listener.on_op(call)
            except Breach:
                raise
            except Exception as error:
                self.drop(listener, error)


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
