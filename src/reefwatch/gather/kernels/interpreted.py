"""A launch in Triton's own interpreter, in a process that also compiles.

The interpreter patches `triton.language` and leaves it so in older versions; all is put back.
Functions that the kernel calls were made for the compiler, so calling one interprets it too.
Its floats follow numpy, except that bf16 in `tl.dot` is multiplied as raw bits in several versions:
one witness among others.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from reefwatch.gather.kernels import libdevice


class NoAnswer(Exception):
    """The interpreter could not run the kernel; says why."""


def run(
    jit: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    grid: tuple[int, ...],
    only: Collection[tuple[int, int, int]] | None = None,
) -> None:
    """Run a launch of `jit` (a JITFunction) on tensors, in place; of the grid, `only` these.

    Raises NoAnswer.
    """
    from triton.runtime.interpreter import GridExecutor, InterpretedFunction

    try:
        with _patched(jit):
            made = InterpretedFunction(jit.fn)
            if only is None:
                made.run(*args, grid=grid, warmup=False, **dict(kwargs))
            else:
                chosen = _Chosen(made.rewrite(), only)
                GridExecutor(chosen, made.arg_names, grid)(*args, **dict(kwargs))
    except Exception as error:
        cause = error.__cause__ or error
        raise NoAnswer(f"{type(cause).__name__}: {cause}"[:300]) from error


class _Chosen:
    """A rewritten kernel that does nothing in programs that were not chosen."""

    def __init__(self, fn: Any, only: Collection[tuple[int, int, int]]) -> None:
        self._fn, self._only = fn, only
        self.__name__, self.__globals__ = fn.__name__, fn.__globals__
        self.__annotations__ = fn.__annotations__
        self.__signature__ = inspect.signature(fn)

    def __call__(self, **kwargs: Any) -> None:
        from triton.runtime.interpreter import interpreter_builder

        if tuple(interpreter_builder.grid_idx) in self._only:
            self._fn(**kwargs)


@contextmanager
def _patched(jit: Any) -> Iterator[None]:
    from triton.runtime import interpreter
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    kept = _snapshot()
    called = JITFunction.__call__
    made: dict[int, Any] = {}
    touched: list[tuple[dict[str, Any], dict[str, Any]]] = []
    _enter(jit.fn.__globals__, touched)

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if id(function) not in made:  # its hash reads its source, by names that are patched now
            _enter(function.fn.__globals__, touched)
            made[id(function)] = InterpretedFunction(function.fn)
        return made[id(function)](*args, **kwargs)

    patch, convert = interpreter._patch_lang_tensor, interpreter._implicit_cvt

    def with_index(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        # before 3.7: int() of an array of shape [1], which numpy 2.4 refuses
        tensor.__index__ = lambda value: int(value.handle.data.reshape(-1)[0])

    JITFunction.__call__ = call
    interpreter._patch_lang_tensor = with_index
    interpreter._implicit_cvt = lambda arg: _scalar(arg) if type(arg) is float else convert(arg)
    try:
        yield
    finally:
        JITFunction.__call__ = called
        interpreter._patch_lang_tensor, interpreter._implicit_cvt = patch, convert
        for space, before in touched:
            space.clear()
            space.update(before)
        _restore(kept)
        rewritten = getattr(InterpretedFunction, "rewritten_fn", None)
        if isinstance(rewritten, dict):
            rewritten.clear()  # rewritten functions look for names that are gone again


def _enter(space: dict[str, Any], touched: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Keep a module's names, and give it functions of libdevice that the interpreter lacks."""
    if any(space is one for one, _ in touched):
        return
    touched.append((space, dict(space)))
    for name, value in list(space.items()):
        origin = getattr(value, "__module__", None) or ""
        if origin.endswith("libdevice") and libdevice.known(getattr(value, "__name__", "")):
            space[name] = libdevice.function(value.__name__)
        elif getattr(value, "__name__", "").endswith("libdevice"):
            space[name] = libdevice.Module(value)


def _scalar(value: float) -> Any:
    """A float argument as the compiled kernel gets it: the interpreter leaves it a Python float."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    return tl.tensor(TensorHandle(np.array([value], np.float32), tl.float32), tl.float32)


def _spaces() -> list[Any]:
    """The modules of `triton.language` and their classes: all that the interpreter patches."""
    import triton.language as tl

    inner = [getattr(tl, name, None) for name in ("core", "math", "random", "standard")]
    modules = [tl, *(module for module in inner if inspect.ismodule(module))]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__.startswith("triton.")
    }
    return [*modules, *classes]


def _snapshot() -> list[tuple[Any, dict[str, Any]]]:
    return [(space, dict(vars(space))) for space in _spaces()]


def _restore(kept: list[tuple[Any, dict[str, Any]]]) -> None:
    for space, before in kept:
        now = dict(vars(space))
        for name in now.keys() - before.keys():
            delattr(space, name)
        for name, value in before.items():
            if now.get(name, _GONE) is not value:
                setattr(space, name, value)


_GONE = object()
