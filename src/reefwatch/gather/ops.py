"""The op layer: one dispatch mode, many listeners; on in examined steps only."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence
from reefwatch.gather.frames import (
    COMPILED,
    ENGINE,
    MODULE,
    OPTIMIZER,
    USER,
    Codes,
    Modules,
    Site,
    is_graph,
    user_line,
)
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.precision.autocast import OFF, follow


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
        "autocast",
        "file",
        "frame",
        "func",
        "kwargs",
        "lasti",
        "layer",
        "line",
        "module",
        "name",
        "out",
        "phase",
        "region",
        "site",
        "step",
    )
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any
    name: str
    module: str
    file: str
    line: int
    phase: str
    autocast: str
    region: str | None
    step: int
    site: Site
    frame: int
    lasti: int
    layer: OpLayer


class _Op(NamedTuple):
    """What is known of one op: `node` is what autograd calls its backward, without `Backward0`."""

    name: str
    writes: bool
    node: str
    func: Any


_PRODUCTS = frozenset(
    ("Mm", "Addmm", "Bmm", "Baddbmm", "Addbmm", "Mv", "Addmv", "Dot", "Linear", "Convolution")
)


# Under any dispatch mode torch takes another path, with other last bits, in the backward of the
# first and in the no-grad form of the second (scripts/verify/op_sweep.py, docs/decisions/0004).
_SHY_BACKWARD = frozenset(("Prod", "Ormqr", "LinalgEig", "LinalgLstsq"))
_SHY_FORWARD = frozenset(("LinalgSvd", "LinalgEigh", "LinalgLstsq"))


class OpLayer:
    """The dispatch mode with its place in the mode stack. See docs/decisions/0001.

    `phase` follows the step by itself (`setup`, `forward`, `backward`); the Watch may set it, to
    `optimizer` around an update of an optimizer that is not torch's.
    `seconds` is the time spent in it so far, without what the dispatcher takes to reach it.
    """

    def __init__(self, tools: Tools, listeners: Sequence[Instrument]) -> None:
        self.phase = "setup"
        self.seconds = 0.0
        self.ops = 0
        self.codes = Codes(tools.torch)
        self.modules = Modules()
        self.unseen: dict[str, int] = {}
        """What ran where this layer could not look, with how often it was met."""
        self.shy_backward = False
        """True when the backward of this step has to run without the layer."""
        self._shy = False
        self._tools = tools
        self._torch = tools.torch
        self._listeners = list(listeners)
        self._regions = follow(tools)
        self._sites: dict[tuple[Any, ...], Site] = {}
        self._forward: dict[int, Site] = {}
        self._back: dict[Site, Site] = {}
        self._sequence = 0
        self._products: dict[int, str] = {}
        self._last = Site()
        self._wrote = False
        self._names: dict[int, _Op] = {}
        self._step = 0
        self._thread = 0
        self._mode: Any = None
        self._call = OpCall()
        self._current_node: Callable[[], Any] = tools.torch._C._current_autograd_node
        self._peek: Callable[[], int] = tools.torch._C._autograd._get_sequence_nr
        _forget_after_fork(self)

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
        self.shy_backward = False
        self._step, self.phase, self._thread = step, "setup", threading.get_ident()
        self._forward.clear()
        self._products.clear()
        self._sequence = self._peek()
        self._last = Site()
        self._regions.settle()
        mode = make_mode(self._torch, self)
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

    def drop(self, listener: Instrument, error: Exception) -> None:
        """A listener failed: it hears no more, and the record says so."""
        self._listeners = [kept for kept in self._listeners if kept is not listener]
        tb = error.__traceback__
        while tb is not None and tb.tb_next is not None:
            tb = tb.tb_next
        where = f"{tb.tb_frame.f_code.co_filename}:{tb.tb_lineno}" if tb is not None else ""
        said = f"{type(error).__name__}: {error}"
        value: dict[str, str | int] = {"error": said, "where": where, "step": self._step}
        self._tools.sink.fact(
            f"errored.{listener.name}", Evidence(f"errored.{listener.name}", value)
        )

    def observe(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, frame: FrameType
    ) -> None:
        """Tell the listeners about one op. Raises Breach, nothing else."""
        try:
            known = self._names.get(id(func)) or self._learn(func)
            site = self._locate(frame, out, known)
        except Exception as error:
            for listener in self._listeners:
                self.drop(listener, error)
            return
        self.ops += 1
        if known.node in _SHY_FORWARD and not self._shy:
            self._shy = True
            self._miss(f"later steps: {known.name} runs otherwise when looked at")
        call = self._call if threading.get_ident() == self._thread else OpCall()
        call.layer = self
        call.func, call.args, call.kwargs, call.out = func, args, kwargs, out
        call.name = known.name
        call.site = site
        call.module, call.file, call.line = site.module, site.file, site.line
        call.phase, call.autocast, call.region = site.phase, site.autocast, site.region
        call.step, call.frame, call.lasti = self._step, id(frame), frame.f_lasti
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

    def _learn(self, func: Any) -> _Op:
        """What is told of an op once. The op is kept with it, so that its id stays its own."""
        name = str(func)
        space, _, rest = name.partition(".")
        schema = getattr(func, "_schema", None)
        writes = schema is not None and any(
            a.alias_info is not None and a.alias_info.is_write for a in schema.arguments
        )
        words = rest.partition(".")[0].strip("_").split("_")
        known = _Op(name, writes, "".join(word.capitalize() for word in words), func)
        self._names[id(func)] = known
        if not hasattr(func, "_schema"):
            self._miss(f"inside the higher-order operator {name}")
        elif space not in ("aten", "prims", "prim", "profiler", "inductor", "quantized", "mkldnn"):
            self._miss(f"inside the custom operator {name.rpartition('.')[0]}")
        return known

    def _miss(self, reason: str) -> None:
        self.unseen[reason] = self.unseen.get(reason, 0) + 1

    def _locate(self, frame: FrameType, out: Any, op: _Op) -> Site:
        node = self._current_node()
        if node is not None:
            return self._locate_backward(frame, out, node)
        kinds, learn = self.codes.kinds, self.codes.learn
        line_frame: FrameType | None = None
        module: Any = None
        graph: Any = None  # what compiled code is kept in; or the user's own traced model
        compiled = False
        at: FrameType | None = frame
        while at is not None:
            code = at.f_code
            kind = kinds.get(id(code)) or learn(code)
            if kind >= USER:
                if line_frame is None:
                    line_frame = at
                    if module is not None:
                        break
            elif kind == MODULE:
                if module is None:
                    module = at.f_locals.get("self")
                    if compiled and not self.modules.owns(module) and is_graph(module):
                        graph, module = graph or module, None
                    elif line_frame is not None:
                        break
            elif kind == OPTIMIZER:
                if line_frame is None:
                    return self._site("", at, "optimizer", OFF, False)
            elif kind == COMPILED:
                compiled = True
            at = at.f_back
        module = module if module is not None else graph
        if module is not None:
            self.phase = "forward"
        elif self.phase == "backward":
            self.phase = "setup"
        path = "" if module is None else self.modules.path(module, frame, self.codes)
        site = self._site(path, line_frame, self.phase, self._state(out), compiled)
        sequence = self._peek()
        if sequence != self._sequence:
            # a node between the last op's and this one's: an in-place op on a view makes one when
            # it has returned; any other belongs to a custom Function that this op is the first of
            between = self._last if self._wrote else site
            for number in range(self._sequence, sequence - 1):
                self._forward[number] = between
            self._forward[sequence - 1] = site
            if op.node in _SHY_BACKWARD:
                self.shy_backward = True
                self._miss(f"the backward of {op.name}, which runs otherwise when looked at")
            if op.node in _PRODUCTS:
                self._products[sequence - 1] = op.node
            self._sequence = sequence
        self._last, self._wrote = site, op.writes
        return site

    def _state(self, out: Any) -> tuple[str, str | None]:
        now = self._regions.here.now
        if not now:
            return OFF
        tensor = out[0] if type(out) in (tuple, list) and out else out
        device = getattr(tensor, "device", None)
        return now.get(device.type, OFF) if device is not None else next(iter(now.values()))

    def _site(
        self,
        path: str,
        frame: FrameType | None,
        phase: str,
        state: tuple[str, str | None],
        compiled: bool,
    ) -> Site:
        key = (
            path,
            0 if frame is None else id(frame.f_code),
            0 if frame is None else frame.f_lasti,
            phase,
            state,
            compiled,
        )
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = Site(
                path,
                "" if frame is None else frame.f_code.co_filename,
                0 if frame is None else frame.f_lineno,
                phase,
                *state,
                caller="" if frame is None else user_line(frame, self.codes),
                compiled=compiled,
            )
        return site

    def _locate_backward(self, frame: FrameType, out: Any, node: Any) -> Site:
        """An op that a node of the graph runs: the node's forward site, and its own line if any."""
        self.phase = "backward"
        number = node._sequence_nr()
        origin = self._forward.get(number)
        kind = node.name().partition("Backward")[0]
        if kind in _PRODUCTS and self._products.get(number) != kind:
            origin = None  # numbers are given out by each thread: this node is another thread's
        own, module, compiled = self._python_in_backward(frame)
        if own is not None:
            # recomputed forward (checkpointing), or the backward of the user's own Function
            if module is None:
                state = (origin.autocast, origin.region) if origin is not None else self._state(out)
                site = self._site("", own, "backward", state, compiled)
                return site if origin is None else self._joined(origin, site)
            path = self.modules.path(module, frame, self.codes)
            site = self._site(path, own, "backward", self._state(out), compiled)
            sequence = self._peek()
            for number in range(self._sequence, sequence):
                self._forward[number] = site
            self._sequence = max(self._sequence, sequence)
            return site
        if origin is None:
            return self._site("", None, "backward", OFF, compiled)
        back = self._back.get(origin)
        if back is None:
            back = self._back[origin] = Site(
                origin.module,
                origin.file,
                origin.line,
                "backward",
                origin.autocast,
                origin.region,
                origin.caller,
                origin.compiled or compiled,
                origin,
            )
        return back

    def _joined(self, origin: Site, own: Site) -> Site:
        key = (origin, own)
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = Site(
                origin.module,
                own.file,
                own.line,
                "backward",
                origin.autocast,
                origin.region,
                own.caller,
                own.compiled,
            )
        return site

    def _python_in_backward(self, frame: FrameType) -> tuple[FrameType | None, Any, bool]:
        """(line frame, module, compiled) of Python code that runs between the engine and the op."""
        kinds, learn = self.codes.kinds, self.codes.learn
        line_frame: FrameType | None = None
        module: Any = None
        compiled = False
        at: FrameType | None = frame
        while at is not None:
            kind = kinds.get(id(at.f_code)) or learn(at.f_code)
            if kind == ENGINE:
                break
            if kind == MODULE and module is None:
                module = at.f_locals.get("self")
            elif kind == COMPILED:
                compiled = True
            elif kind >= USER and line_frame is None:
                line_frame = at
            at = at.f_back
        return line_frame, module, compiled


def make_mode(torch: Any, layer: OpLayer) -> Any:
    """One mode object for `layer`; its class is made anew, since torch is there only now."""
    from torch.utils._python_dispatch import TorchDispatchMode

    plain = (torch.Tensor, torch.nn.Parameter)
    overload = torch._ops.OpOverload
    quiet = torch._C.DisableTorchFunction
    clock = layer._tools.clock
    callback = torch._C._dynamo.eval_frame.get_eval_frame_callback
    set_callback = torch._C._dynamo.eval_frame.set_eval_frame

    def __torch_dispatch__(
        self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        for kind in types:
            if kind not in plain:
                return NotImplemented  # its own handler runs next, and its inner ops come here
        kwargs = kwargs or {}
        call = func._op if type(func) is overload else func
        layer = self.layer
        if layer is None:
            return call(*args, **kwargs)
        try:
            if call is func or func._namespace not in ("aten", "prims"):
                out = call(*args, **kwargs)
            else:
                with quiet():  # the user's function modes and subclasses have had their say above
                    out = call(*args, **kwargs)
        except BaseException as error:
            # of the frames between the user's and the failure only this one stays
            tb = error.__traceback__
            raise error.with_traceback(tb.tb_next if tb is not None else None)  # noqa: B904
        began = clock()
        dynamo = callback()
        if dynamo is not None:  # nothing of ours may be compiled
            set_callback(None)
        try:
            with quiet():
                layer.observe(func, args, kwargs, out, sys._getframe(1))
        finally:
            if dynamo is not None:
                set_callback(dynamo)
            layer.seconds += clock() - began
        return out

    def yes(cls: Any) -> bool:
        return True

    def no(cls: Any) -> bool:
        return False

    kind = type(
        "ReefwatchOps",
        (TorchDispatchMode,),
        {
            "supports_higher_order_operators": True,
            "ignore_compile_internals": classmethod(yes),
            "_should_skip_dynamo": classmethod(no),
        },
    )
    # set after the class is made: the base would wrap it in dynamo's `disable`, importing dynamo
    kind.__torch_dispatch__ = __torch_dispatch__  # type: ignore[attr-defined]
    _never_compile(torch, __torch_dispatch__.__code__)
    mode = kind()
    mode.layer = layer
    return mode


def _never_compile(torch: Any, code: Any) -> None:
    """Tell dynamo's frame evaluator to run this code as it is (2.6 and newer, and before)."""
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        usual = frames._FrameAction.DEFAULT
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, usual))
    elif hasattr(frames, "skip_code"):
        frames.skip_code(code)


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
