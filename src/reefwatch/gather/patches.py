"""Every monkey-patch by name, reversible; the originals are kept before a script can mock them."""

from __future__ import annotations

import dis as _dis
import functools
import sys as _sys
import threading as _threading
import time as _time
import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

# Tests of users' own programs mock these. What is taken here, at import, stays the real thing.
perf_counter = _time.perf_counter
get_ident = _threading.get_ident
getframe = _sys._getframe
threads = _sys._current_frames

_DummyThread = _threading._DummyThread
_F = TypeVar("_F", bound=Any)
_MISSING: Any = object()
_everything: weakref.WeakSet[Patches] = weakref.WeakSet()


def is_python_thread(ident: int) -> bool:
    """False for a thread that C++ made, such as one of the autograd engine."""
    made = [thread for thread in _threading.enumerate() if thread.ident == ident]
    return any(not isinstance(thread, _DummyThread) for thread in made)


def unseen(function: _F) -> _F:
    """Make the frames of a function invisible: no traceback and no stack shows them (3.11 to 3.14).

    CPython leaves out a frame that has not come to its `RESUME` yet (`_PyFrame_IsIncomplete`),
    which tells the time before a function's arguments are in place. Here `RESUME` is put where it
    is never reached. Returned as it is where that cannot be done (3.10: there is none), or where
    the frame is to suspend (generators). `sys._getframe()` inside gives the caller's frame.
    """
    code = function.__code__
    resume, skip = _dis.opmap.get("RESUME"), _dis.opmap["NOP"]
    raw = bytearray(code.co_code)
    places = [at for at in range(0, len(raw), 2) if raw[at] == resume]
    if len(places) == 1 and raw[places[0] + 1] == 0:
        raw[places[0]] = skip
        function.__code__ = code.replace(co_code=bytes(raw) + bytes((resume or 0, 0)))
    return function


class Patches:
    """The patches of one owner, taken back in reverse order.

    `replace` puts a function of ours in the place of another; its frame is invisible (but not in
    Python 3.10), those of functions that it calls are not. `observe` only looks: no frame of ours
    is on the stack while the original runs.
    """

    def __init__(self) -> None:
        self._done: list[_Patch] = []
        _everything.add(self)

    def replace(
        self, owner: Any, attribute: str, make: Callable[[Any], Callable[..., Any]]
    ) -> Callable[..., Any]:
        """Put `make(original)` in the place of `owner.attribute`; return what is now there.

        Raises AttributeError when there is no such attribute.
        """
        patch = _Patch(owner, attribute)
        made = make(patch.original)
        if not isinstance(made, types.FunctionType):  # an object that has to be itself
            self._install(patch, made)
            return made

        def replacement(*args: Any, **kwargs: Any) -> Any:
            return (made if patch.live else patch.original)(*args, **kwargs)

        unseen(made)
        named = functools.update_wrapper(unseen(replacement), patch.original)
        wrap = type(patch.raw) if isinstance(patch.raw, (staticmethod, classmethod)) else None
        self._install(patch, wrap(named) if wrap else named)
        return named

    def observe(
        self,
        owner: Any,
        attribute: str,
        before: Callable[[Any], None],
        after: Callable[[Any], None] | None = None,
    ) -> None:
        """Call `before(instance)` when `owner.attribute` is called, `after(instance)` at its end.

        For a method of a class, looking it up on an instance counts as calling it; `instance` is
        None for a plain function. The identity of the function seen through the class, the
        traceback when it raises, and its arguments are as without us. What `after` raises is
        lost. Raises AttributeError when there is no such attribute.
        """
        patch = _Patch(owner, attribute)
        kind = _Method if isinstance(owner, type) else _Function
        self._install(patch, kind(patch, before, after))

    def put(self, owner: Any, attribute: str, value: Any) -> None:
        """Put a value in the place of `owner.attribute`."""
        self._install(_Patch(owner, attribute), value)

    def _install(self, patch: _Patch, ours: Any) -> None:
        patch.ours = ours
        setattr(patch.owner, patch.attribute, ours)
        self._done.append(patch)

    def restore(self) -> None:
        """Take all back. A later patch of the user's stays; ours beneath it only passes through."""
        while self._done:
            self._done.pop().undo()


class _Patch:
    """One replaced attribute."""

    def __init__(self, owner: Any, attribute: str) -> None:
        self.owner = owner
        self.attribute = attribute
        self.raw = vars(owner).get(attribute, _MISSING)
        self.original = getattr(owner, attribute)
        if isinstance(self.raw, classmethod):  # bound by the wrapper again, so keep it unbound
            self.original = self.raw.__func__
        self.ours: Any = None
        self.live = True

    def undo(self) -> None:
        self.live = False
        if vars(self.owner).get(self.attribute, _MISSING) is not self.ours:
            return
        if self.raw is _MISSING:
            delattr(self.owner, self.attribute)
        else:
            setattr(self.owner, self.attribute, self.raw)


class _Call(functools.partial):  # type: ignore[type-arg]
    """The original, called from C, so that no frame of ours lies on the stack meanwhile.

    The interpreter drops the callable as soon as the call has returned or raised.
    """

    after: Callable[[Any], None]
    instance: Any

    def __del__(self) -> None:
        self.after(self.instance)


def observed(
    function: Callable[..., Any], after: Callable[[Any], None] | None, instance: Any
) -> Callable[..., Any]:
    """`function`, with `after(instance)` called when the caller lets go of it."""
    if after is None:
        return function
    call = _Call(function)
    call.after = after
    call.instance = instance
    return call


class _Method:
    """Stands in a class for one of its methods."""

    def __init__(
        self, patch: _Patch, before: Callable[[Any], None], after: Callable[[Any], None] | None
    ) -> None:
        self._patch = patch
        self._before = before
        self._after = after

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        original = self._patch.original
        if instance is None:
            return original
        bound = types.MethodType(original, instance)
        if not self._patch.live:
            return bound
        self._before(instance)
        return observed(bound, self._after, instance)


class _Function:
    """Stands in a module for one of its functions."""

    def __init__(
        self, patch: _Patch, before: Callable[[Any], None], after: Callable[[Any], None] | None
    ) -> None:
        self._patch = patch
        self._before = before
        self._after = after
        functools.update_wrapper(self, patch.original)

    @property
    def __class__(self) -> type:
        return type(self._patch.original)  # `isinstance` and `inspect` take it for the function

    def __getattr__(self, name: str) -> Any:
        if name == "_patch":  # not there yet
            raise AttributeError(name)
        return getattr(self._patch.original, name)

    @property
    def __call__(self) -> Any:
        # C looks `__call__` up first and calls the result then: this frame is gone by that time.
        if not self._patch.live:
            return self._patch.original
        self._before(None)
        return observed(self._patch.original, self._after, None)

    def __reduce__(self) -> str:
        return self._patch.attribute


def opaque(torch: Any, *functions: Callable[..., Any]) -> None:
    """Make dynamo run these functions, and all that they call, as they are.

    Eager code between the graphs of a compiled function calls our hooks; dynamo would compile
    their frames too. Dynamo's C part alone is used: its Python part may not be imported yet.
    """
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    for function in (*functions, *_ENTRIES):
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))


_ENTRIES: tuple[Any, ...] = (_Call.__del__, _Method.__get__, _Function.__call__.fget)  # type: ignore[attr-defined]


def restore_all() -> None:
    """Take back every patch of every owner: for a forked child, which is not watched."""
    for patches in list(_everything):
        patches.restore()
