"""The moments of a run, found in torch itself: backward passes, updates, module calls, compiles.

Nothing here is on the stack while the user's own code, or torch's, runs: a traceback looks as
without us.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any, Protocol

from reefwatch.gather import key
from reefwatch.gather.patches import Patches, getframe, observed, opaque

TIMES = 3
"""How often each place that turns gradients off is told of."""
PLACES = 64
"""Places that are told apart; those that follow are not told of."""


class Attendant(Protocol):
    """Who is told of the moments."""

    def backward_begins(self, output: Any, accumulates: bool) -> None: ...
    def backward_ended(self, output: Any, accumulates: bool) -> None: ...
    def update_begins(self, optimizer: Any) -> None: ...
    def update_ended(self, optimizer: Any) -> None: ...
    def optimizer_begun(self, optimizer: Any) -> None: ...
    def scale_updated(self, scaler: Any) -> None: ...
    def compile_called(self) -> None: ...
    def profiler_starts(self, nothing: Any) -> None: ...
    def mode_pushed(self, nothing: Any) -> None: ...
    def gradients_off(self, place: Any) -> None: ...


class Moments:
    """Installs the hooks for everything but module calls, and takes them off again."""

    def __init__(self, torch: Any, attendant: Attendant) -> None:
        self._torch = torch
        self._attendant = attendant
        self._patches = Patches()
        self._handles: list[Any] = []
        self._backward = Backward(attendant)

    def install(self) -> None:
        torch, told, patches = self._torch, self._attendant, self._patches
        optimizers = import_module("torch.optim.optimizer")  # torch.optim deletes the name
        before, after = update_hooks(torch, told)
        self._handles.append(optimizers.register_optimizer_step_pre_hook(before))
        self._handles.append(optimizers.register_optimizer_step_post_hook(after))
        # `__init__` itself raises on bad arguments; this part of it does not.
        patches.observe(torch.optim.Optimizer, "_patch_step_function", told.optimizer_begun)
        patches.observe(torch.amp.GradScaler, "update", told.scale_updated)
        patches.observe(torch, "compile", self._compile)
        patches.observe(torch.autograd.profiler, "_enable_profiler", told.profiler_starts)
        patches.observe(torch.utils._python_dispatch, "_push_mode", told.mode_pushed)
        patches.observe(torch.inference_mode, "__exit__", _nothing, self._mend)
        quiet = Quiet(torch, told.gradients_off)
        for context in (torch.no_grad, torch.inference_mode, torch.set_grad_enabled):
            patches.observe(context, "__enter__", quiet.enters)
        variable = torch.autograd.Variable
        engine = self._backward.engine(torch, variable._execution_engine)
        patches.put(variable, "_execution_engine", engine)
        opaque(torch, type(engine).run_backward.fget, before, after)

    def _compile(self, nothing: None) -> None:
        # used as a decorator with arguments, it calls itself when the function is there
        if getframe(2).f_globals.get("__name__") != "torch":
            self._attendant.compile_called()

    def _mend(self, context: Any) -> None:
        """Make the thread's dispatch keys agree with its mode stack.

        At its end `inference_mode` puts back the keys that it found, also the key of a mode that
        was taken off the stack meanwhile; the next op would then fail.
        """
        core = self._torch._C
        on = core._len_torch_dispatch_stack() > 0
        for name in ("Python", "PythonTLSSnapshot"):
            core._dispatch_tls_set_dispatch_key_included(name, on)
        key.settle()

    def movable(self) -> bool:
        """True when the calling thread's mode stack may be changed here, for good.

        A backward pass and torch.func's transforms put back the stack that they found.
        """
        core = self._torch._C
        return not self._backward.running() and core._functorch.peek_interpreter_stack() is None

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._patches.restore()
        self._backward.live = False


def _nothing(instance: Any) -> None:
    return None


def update_hooks(torch: Any, told: Attendant) -> tuple[Callable[..., None], Callable[..., None]]:
    """The global hooks around every `Optimizer.step`."""
    compiling = torch.compiler.is_compiling

    # Dynamo traces these into a compiled `step`; there they must vanish.
    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not compiling():
            told.update_begins(optimizer)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not compiling():
            told.update_ended(optimizer)

    return before, after


class Backward:
    """Follows the autograd engine's `run_backward`, which every kind of backward call ends in.

    `Tensor.backward` is not patched: under a TorchFunctionMode it is called twice, and a wrapper
    would be in every traceback of a failing backward pass. The engine's own method is looked up
    right before each call, so an object whose `run_backward` is a property sees the call.
    """

    def __init__(self, told: Attendant) -> None:
        self.live = True
        self._told = told
        self._depth = threading.local()

    def running(self) -> bool:
        """True inside a backward pass of the calling thread."""
        return bool(getattr(self._depth, "now", 0))

    def engine(self, torch: Any, original: Any) -> Any:
        """An engine like `original` (same C++ engine: it has no state of its own)."""
        follow = self

        class Engine(torch._C._ImperativeEngine):  # type: ignore[misc]
            @property
            def run_backward(self) -> Any:
                return follow.called(original.run_backward, getframe(1).f_locals)

        Engine.__name__ = Engine.__qualname__ = type(original).__name__
        return Engine()

    def called(self, run: Callable[..., Any], caller: dict[str, Any]) -> Callable[..., Any]:
        """What to call instead of `run`. Raises Breach."""
        if not self.live or self.running():  # a pass inside a pass: reentrant checkpoints
            return run
        outputs = caller.get("t_outputs") or (None,)
        accumulates = bool(caller.get("kwargs", {}).get("accumulate_grad", True))
        self._told.backward_begins(outputs[0], accumulates)
        self._depth.now = 1
        return observed(run, self._ended, (outputs[0], accumulates))

    def _ended(self, what: tuple[Any, bool]) -> None:
        self._depth.now = 0
        self._told.backward_ended(*what)


class Quiet:
    """Tells where the program turns gradients off: each place of its own code a few times."""

    def __init__(self, torch: Any, told: Callable[[Any], None]) -> None:
        self._told = told
        self._torch = os.path.dirname(torch.__file__) + os.sep
        self._through = torch.no_grad.__call__.__code__.co_filename
        """Where decorators enter the context from, and where the `for` of a generator does."""
        self._places: dict[tuple[Any, int], int] = {}

    def enters(self, context: Any) -> None:
        if getattr(context, "mode", None) is (type(context).__name__ == "set_grad_enabled"):
            return  # gradients are turned on, or inference mode off
        frame: FrameType | None = getframe(2)
        while frame is not None and frame.f_code.co_filename == self._through:
            frame = frame.f_back
        if frame is None:
            return
        place = (frame.f_code, frame.f_lasti)
        told = self._places.get(place, 0)
        if told >= TIMES or (not told and len(self._places) >= PLACES):
            return
        if frame.f_code.co_filename.startswith(self._torch):
            told = TIMES
        else:
            self._told(None)
        self._places[place] = told + 1


class ModuleCalls:
    """Sees calls of modules, on all of them or on one type, for as long as it is installed."""

    def __init__(self, torch: Any, called: Callable[[Any], None]) -> None:
        self._module = torch.nn.Module
        self._code = torch.nn.Module._call_impl.__code__
        self._called = called
        self._patches = Patches()
        self.on: type | None = None

    def watch(self, kind: type | None = None) -> None:
        """Look at modules of this type; of every type when None is given."""
        if self.on is not (kind or self._module):
            self.stop()
            self.on = kind or self._module
            self._patches.observe(self.on, "__call__", self._called)

    def narrow(self, root: Any, compiled: bool) -> bool:
        """Look at calls of the root's own type only; False when that cannot be."""
        kind = type(root)
        if kind is type(None) or kind.__module__.partition(".")[0] == "torch" or compiled:
            self.stop()
            return False
        self.watch(kind)
        return True

    def stop(self) -> None:
        self._patches.restore()
        self.on = None

    def outermost(self) -> bool:
        """True when no module is being called around the call that is seen now."""
        frame = getframe(2)
        while frame is not None:
            if frame.f_code is self._code:
                return False
            frame = frame.f_back  # type: ignore[assignment]
        return True
