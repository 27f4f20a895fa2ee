"""Sees each use of torch.compile where all of them end: dynamo's context, made for a function."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from reefwatch.gather import key
from reefwatch.gather.compiled.earlier import Earlier
from reefwatch.gather.patches import Patches, getframe, unseen

_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Roles(threading.local):
    """Whether compiled callables are called as such on this thread, or their originals are."""

    now: str | None = None
    """`original` or `compiled` inside a run of ours; None in the program's own."""


class Use:
    """One compiled callable: the original, what dynamo made of it, and how it was asked for."""

    def __init__(
        self,
        number: int,
        function: Any,
        compiled: Any,
        context: Any,
        place: tuple[str, int],
        roles: Roles,
    ) -> None:
        self.number = number
        self.roles = roles
        self.function = function
        """The original callable."""
        self.compiled = compiled
        """What the program calls, as dynamo made it."""
        self.context = context
        self.file, self.line = place
        """Where torch.compile was called."""
        self.calls = 0
        self.seconds = 0.0
        """The longest judged call: the one in which it was compiled."""
        self.live = True

    @property
    def module(self) -> Any:
        """The module whose call was compiled; None for a function."""
        owner = getattr(self.function, "__self__", None)
        code = getattr(self.function, "__code__", None)
        if owner is None and code is not None and code.co_filename.endswith("external_utils.py"):
            owner = self.function.__closure__[0].cell_contents  # dynamo's frame around a module
        return owner if _is_module(owner) else None

    def original(self, *args: Any, **kwargs: Any) -> Any:
        """The original, with the originals of what it calls."""
        return self._as("original", self.function, args, kwargs)

    def again(self, *args: Any, **kwargs: Any) -> Any:
        """The compiled callable, in a run of ours."""
        return self._as("compiled", self.compiled, args, kwargs)

    def _as(self, role: str, call: Any, args: Any, kwargs: Any) -> Any:
        before, self.roles.now = self.roles.now, role
        try:
            return call(*args, **kwargs)
        finally:
            self.roles.now = before

    @property
    def backend(self) -> Any:
        """The backend as it was given to torch.compile."""
        found: Any = getattr(self.context, "callback", None)
        while hasattr(found, "_torchdynamo_orig_backend"):
            found = found._torchdynamo_orig_backend
        return found

    @property
    def name(self) -> str:
        """What the program calls it."""
        module = self.module
        if module is not None:
            return type(module).__name__
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """`{"backend", "options", "dynamic", "fullgraph"}`."""
        backend = self.backend
        name = getattr(backend, "compiler_name", None) or getattr(backend, "__name__", "")
        return {
            "backend": str(name or type(backend).__name__),
            "options": dict(getattr(backend, "config", None) or {}),
            "dynamic": getattr(self.context, "_dynamic", None),
            "fullgraph": bool(getattr(self.context, "fullgraph", False)),
        }

    def option(self, name: str) -> Any:
        """Inductor's option, as this use has it."""
        options = self.settings["options"]
        if name in options:
            return options[name]
        config: Any = sys.modules.get("torch._inductor.config")
        for part in name.split("."):
            config = getattr(config, part, None)
        return config

    @property
    def inductor(self) -> bool:
        return bool(self.settings["backend"] == "inductor")

    @functools.cached_property
    def foreign(self) -> bool:
        """True for a backend of the program's own: running its code once more may have effects."""
        backend = self.backend
        if self.inductor:
            return False
        backend = getattr(backend, "compiler_fn", backend)  # torch.compile has wrapped it
        registry = sys.modules.get("torch._dynamo.backends.registry")
        known = getattr(registry, "_COMPILER_FNS", {})
        ours = str(getattr(backend, "__module__", "")).startswith("torch.")
        return not (ours and any(backend is one for one in known.values()))

    @property
    def graphs(self) -> bool:
        """True when it replays CUDA graphs: a second call would write over the first's results."""
        if self.settings["backend"] == "cudagraphs":
            return True
        return self.inductor and bool(self.option("triton.cudagraphs"))

    @property
    def own_randomness(self) -> bool:
        """True when compiled code draws other numbers than the original."""
        return self.inductor and not self.option("fallback_random")


def _is_module(value: Any) -> bool:
    torch = sys.modules["torch"]
    return isinstance(value, torch.nn.Module)


class Caller(Protocol):
    """Who makes the calls of compiled code."""

    def called(self, use: Use, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


class Uses:
    """Stands before every compiled callable that is made while it is on."""

    def __init__(self, torch: Any, caller: Caller) -> None:
        self.all: list[Use] = []
        """Those that were made under watch, and those of before that have been called."""
        self.before: list[Use] = []
        """Those of before that nobody has called yet."""
        self._torch = torch
        self._caller = caller
        self._patches = Patches()
        self._on = False
        self.roles = Roles()
        self.earlier = Earlier()
        for way in (Use.original, Use.again, Use._as):
            never_compile(torch, way.__code__)

    def start(self) -> None:
        """Dynamo has been imported."""
        frames = sys.modules["torch._dynamo.eval_frame"]
        self._on = True
        self._patches.replace(frames._TorchDynamoContext, "__call__", self._make)
        self.earlier.adopt(frames, self._stand_before)
        if self.earlier.functions:
            key.compiled.add(id(self))

    def stop(self) -> None:
        """Calls of what was compiled meanwhile pass through from here on."""
        self._on = False
        for use in (*self.all, *self.before):
            use.live = False
        self._patches.restore()
        self.earlier.restore()
        key.compiled.discard(id(self))

    def _make(self, original: Callable[..., Any]) -> Callable[..., Any]:
        frames = sys.modules["torch._dynamo.eval_frame"]
        optimizing = frames.OptimizeContext

        def __call__(context: Any, fn: Any) -> Any:
            made = original(context, fn)
            if not isinstance(context, optimizing) or getattr(context, "export", False):
                return made
            try:
                return self._stand_before(context, made)
            except Exception:  # what we do not know is left as it is
                return made

        return __call__

    def _stand_before(self, context: Any, made: Any, place: tuple[str, int] | None = None) -> Any:
        function = getattr(made, "_torchdynamo_orig_callable", None)
        if not self._on or function is None or type(made).__name__ != "function":
            return made
        number = len(self.all) if place is None else -1
        use = Use(number, function, made, context, place or _place(), self.roles)
        caller, roles = self._caller, self.roles

        def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
            if roles.now is not None:
                return (function if roles.now == "original" else made)(*args, **kwargs)
            if not use.live:
                return made(*args, **kwargs)
            if use.number < 0:
                self._called(use)
            return caller.called(use, args, kwargs)

        unseen(compile_wrapper)
        guarded: Any = functools.update_wrapper(compile_wrapper, made)
        guarded.__wrapped__ = made.__wrapped__
        if getattr(made, "_torchdynamo_wrapper_id", None) == id(made):
            guarded._torchdynamo_wrapper_id = id(guarded)
        never_compile(self._torch, guarded.__code__)
        (self.all if place is None else self.before).append(use)
        key.compiled.add(id(self))
        return guarded

    def _called(self, use: Use) -> None:
        self.before.remove(use)
        use.number = len(self.all)
        self.all.append(use)


def never_compile(torch: Any, code: Any) -> None:
    """Tell dynamo to run this code as it is, and all that it calls.

    The program's compiled callable turns dynamo on again by itself, as it does everywhere.
    """
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))


def _place() -> tuple[str, int]:
    """File and line of the program's own call of torch.compile."""
    torch = os.path.dirname(os.path.abspath(sys.modules["torch"].__file__ or "")) + os.sep
    frame = getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((torch, _OWN, "<frozen")) and "contextlib" not in file:
            return os.path.abspath(file), frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0
