"""The op layer as a dispatch mode: where key.py cannot be used, as with compiled code.

What a mode changes in the run is told in docs/decisions/0004.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from reefwatch.gather.numbers import make_box
from reefwatch.gather.patches import unseen

MODE = "ReefwatchOps"
"""Name of the dispatch mode's class, which is made anew for each layer."""


def make_mode(torch: Any, layer: Any, clock: Callable[[], float]) -> Any:
    """One mode object, which tells `layer.observe` about each op and adds to `layer.seconds`."""
    from torch.utils._python_dispatch import TorchDispatchMode

    boxed = make_box(torch)
    plain = (torch.Tensor, torch.nn.Parameter)
    overload = torch._ops.OpOverload
    quiet = torch._C.DisableTorchFunction
    active = torch._C._get_dispatch_mode
    keys = torch._C._TorchDispatchModeKey
    below = (keys.FAKE, keys.PROXY, keys.FUNCTIONAL)
    """Modes of torch's own, which lie below all others in the stack."""
    callback = torch._C._dynamo.eval_frame.get_eval_frame_callback
    set_callback = torch._C._dynamo.eval_frame.set_eval_frame

    def __torch_dispatch__(
        self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        call = func._op if type(func) is overload else func
        for kind in types:
            if kind not in plain:
                if any(active(key) is not None for key in below):
                    return call(*args, **kwargs)  # a fake or traced tensor: that mode is next
                return NotImplemented  # its own handler runs next, and its inner ops come here
        args = boxed(func, args)
        layer = self.layer
        if layer is None:
            return call(*args, **kwargs)
        if layer.ahead is not None:
            ahead(layer, func, args, kwargs)
        if call is func or func._namespace not in ("aten", "prims"):
            out = call(*args, **kwargs)
        else:
            with quiet():  # the user's function modes and subclasses have had their say above
                out = call(*args, **kwargs)
        began = clock()
        dynamo = callback()
        if dynamo is not None:  # nothing of ours may be compiled
            set_callback(None)
        try:
            with quiet():
                layer.observe(func, args, kwargs, out, caller(code))
        finally:
            if dynamo is not None:
                set_callback(dynamo)
            layer.seconds += clock() - began
        return out

    def ahead(layer: Any, func: Any, args: Any, kwargs: Any) -> None:
        began = clock()
        dynamo = callback()
        if dynamo is not None:
            set_callback(None)
        try:
            with quiet():
                layer.ahead(func, args, kwargs)
        finally:
            if dynamo is not None:
                set_callback(dynamo)
            layer.seconds += clock() - began

    def yes(cls: Any) -> bool:
        return True

    def no(cls: Any) -> bool:
        return False

    kind = type(
        MODE,
        (TorchDispatchMode,),
        {
            "supports_higher_order_operators": True,
            "ignore_compile_internals": classmethod(yes),
            "_should_skip_dynamo": classmethod(no),
        },
    )
    # set after the class is made: the base would wrap it in dynamo's `disable`, importing dynamo
    kind.__torch_dispatch__ = unseen(__torch_dispatch__)  # type: ignore[attr-defined]
    code = __torch_dispatch__.__code__
    _never_compile(torch, code)
    mode = kind()
    mode.layer = layer
    return mode


class Mode:
    """One mode object at the bottom of the mode stack of the thread that enters it."""

    def __init__(self, torch: Any, clock: Callable[[], float]) -> None:
        self._torch = torch
        self._clock = clock
        self._mode: Any = None

    @property
    def layer(self) -> Any:
        """Who is told. Set to None: it only passes ops on, on whatever thread's stack it lies."""
        return None if self._mode is None else self._mode.layer

    @layer.setter
    def layer(self, layer: Any) -> None:
        if self._mode is not None:
            self._mode.layer = layer

    def enter(self, layer: Any) -> bool:
        """Push it at the bottom of the calling thread's stack. Always possible."""
        from torch.utils._python_dispatch import _pop_mode, _push_mode

        self._mode = make_mode(self._torch, layer, self._clock)
        above = [_pop_mode() for _ in range(self._torch._C._len_torch_dispatch_stack())]
        _push_mode(self._mode)
        for other in reversed(above):
            _push_mode(other)
        return True

    def leave(self) -> None:
        """Take it off the calling thread's stack, wherever it lies; others stay in order."""
        from torch.utils._python_dispatch import _pop_mode, _push_mode

        self.layer = None  # should it lie on another thread's stack, it is inert from here on
        mode, self._mode = self._mode, None
        above = []
        while self._torch._C._len_torch_dispatch_stack():
            other = _pop_mode()
            if other is mode:
                break
            above.append(other)
        for other in reversed(above):
            _push_mode(other)


def caller(code: Any) -> Any:
    """The frame that an op was called from, or None.

    The handler's own frame (of `code`) is among the frames in Python 3.10 only. There is none at
    all where autograd runs a device's backward pass on a thread of its own.
    """
    try:
        frame: Any = sys._getframe(1)
    except ValueError:
        return None
    return frame.f_back if frame.f_code is code else frame


def sweep(torch: Any) -> None:
    """Take modes that were left from another thread off the calling thread's stack."""
    from torch.utils._python_dispatch import _pop_mode, _push_mode

    modes = [_pop_mode() for _ in range(torch._C._len_torch_dispatch_stack())]
    for mode in reversed(modes):
        if type(mode).__name__ != MODE or mode.layer is not None:
            _push_mode(mode)


def _never_compile(torch: Any, code: Any) -> None:
    """Tell dynamo's frame evaluator to run this code as it is (2.6 and newer, and before)."""
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        usual = frames._FrameAction.DEFAULT
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, usual))
    elif hasattr(frames, "skip_code"):
        frames.skip_code(code)
