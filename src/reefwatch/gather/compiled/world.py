"""All that a call can read and change: its arguments, its modules, closures and globals.

The objects are the program's own. Only tensors are replaced by copies, for the time of a run of
ours, and everything is put back as it was found after it.
"""

from __future__ import annotations

import collections
import functools
import io
import os
import sys
import types
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import torch

from reefwatch.gather.compiled.copies import Copies, plain

MOST = 50_000
"""Objects that are looked at in one call; with more it is left unproven."""
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_SIMPLE = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, Enum)
_FRESH = frozenset(vars(torch.nn.Module())) - {"training", "_parameters", "_buffers", "_modules"}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_LEAVES = (
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    torch.fx.Graph,
)
_FOREIGN = frozenset(
    """
        torch torchvision torchaudio numpy logging threading typing re abc functools weakref
        _thread contextlib queue multiprocessing concurrent asyncio subprocess pathlib reefwatch
    """.split()  # noqa: SIM905
)


class Leaf:
    """One end of the walk: a tensor, a plain value, or something that is only named."""

    __slots__ = ("kind", "path", "value")

    def __init__(self, path: str, kind: str, value: Any) -> None:
        self.path, self.kind, self.value = path, kind, value


class Walk:
    """The objects that can be reached from some roots, each once."""

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self.holders: list[Any] = []
        self.outside: list[str] = []
        """Why a call that reaches these objects cannot be made twice."""
        self._seen: dict[int, Any] = {}
        self._codes: set[Any] = set()

    def visit(self, value: Any, path: str) -> None:
        """Walk from a value."""
        stack = [(value, path)]
        while stack:
            if len(self._seen) > MOST:
                self.outside.append("it reaches too many objects")
                return
            value, path = stack.pop()
            stack.extend(reversed(list(self._step(value, path))))

    def _step(self, value: Any, path: str) -> Iterator[tuple[Any, str]]:
        if isinstance(value, torch.Tensor):
            self.leaves.append(Leaf(path, "tensor", value))
            return
        if isinstance(value, _SIMPLE):
            self.leaves.append(Leaf(path, "plain", value))
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, (tuple, list, collections.deque, set, frozenset)):
            self.leaves.append(Leaf(path, "kind", (type(value).__name__, len(value))))
            if not isinstance(value, (tuple, frozenset)):
                self.holders.append(value)
            named = getattr(value, "_fields", None) if isinstance(value, tuple) else None
            for n, item in enumerate(value):
                yield item, f"{path}.{named[n]}" if named else f"{path}[{n}]"
        elif isinstance(value, dict):
            self.leaves.append(Leaf(path, "kind", (type(value).__name__, len(value))))
            self.holders.append(value)
            yield from self._items(value, path)
        elif isinstance(value, torch.nn.Module):
            yield from self._module(value, path)
        elif isinstance(value, torch.optim.Optimizer):
            yield value.param_groups, f"{path}.param_groups"
            yield value.state, f"{path}.state"
        elif isinstance(value, types.FunctionType):
            yield from self._function(value, path)
        elif isinstance(value, types.MethodType):
            yield value.__self__, path
            yield value.__func__, path
        elif isinstance(value, functools.partial):
            yield (value.func, path)
            yield (value.args, f"{path}.args")
            yield (value.keywords, f"{path}.keywords")
        elif isinstance(value, types.CellType):
            yield from self._cell(value, path)
        elif _is_block(value):
            self.leaves.append(Leaf(path, "block", _bytes(value)))
            self.holders.append(_Block(value))
        elif isinstance(value, torch.Generator):
            self.holders.append(_Generator(value))
        elif isinstance(value, io.IOBase):
            self.outside.append(f"{path} is a file")
        elif isinstance(value, collections.abc.Iterator):
            self.outside.append(f"{path} is an iterator, which would be used up")
        elif not isinstance(value, (type, *_LEAVES)):
            yield from self._object(value, path)

    def _items(self, value: Any, path: str) -> Iterator[tuple[Any, str]]:
        for n, (key, item) in enumerate(list(value.items())):
            if isinstance(key, torch.Tensor):
                self.leaves.append(Leaf(f"{path} key {n}", "tensor", key))
                yield item, f"{path}[{n}]"
            else:
                yield item, f"{path}[{key!r}]" if not isinstance(key, str) else f"{path}.{key}"

    def _module(self, module: Any, path: str) -> Iterator[tuple[Any, str]]:
        inside = vars(module)
        if "_orig_mod" in inside.get("_modules", {}):  # dynamo's own wrapper
            yield inside["_modules"]["_orig_mod"], path
            return
        self.holders.append(inside)
        before = path + "." if path else ""
        for part in ("_parameters", "_buffers", "_modules"):
            self.holders.append(inside[part])
            for name, item in inside[part].items():
                yield item, before + name
        for name, item in list(inside.items()):
            if name in _HOOKS:
                yield list(item.values()), f"{before}{name}"
            elif name not in _FRESH and name not in ("_parameters", "_buffers", "_modules"):
                yield item, before + name
        yield from self._class(type(module), path)

    def _object(self, value: Any, path: str) -> Iterator[tuple[Any, str]]:
        kind = type(value)
        if kind.__module__.partition(".")[0] in _FOREIGN:
            self.leaves.append(Leaf(path, "opaque", kind.__name__))
            return
        self.leaves.append(Leaf(path, "opaque", kind.__name__))
        inside = getattr(value, "__dict__", None)
        if isinstance(inside, dict):
            self.holders.append(inside)
            for name, item in list(inside.items()):
                yield item, f"{path}.{name}"
        for part in kind.__mro__:
            for name in getattr(part, "__slots__", ()):
                if isinstance(name, str) and hasattr(value, name) and name != "__dict__":
                    item = getattr(value, name)
                    self.holders.append(_Attribute(value, name))
                    yield item, f"{path}.{name}"
        yield from self._class(kind, path)

    def _class(self, kind: type, path: str) -> Iterator[tuple[Any, str]]:
        """Values on the program's own classes, and what their methods read."""
        for part in kind.__mro__:
            if part.__module__.partition(".")[0] in (*_FOREIGN, "builtins") or part in self._codes:
                continue
            self._codes.add(part)
            for name, item in list(vars(part).items()):
                item = getattr(item, "__func__", item)  # of a static or class method
                if isinstance(item, types.FunctionType):
                    yield item, path
                elif not name.startswith("__") and isinstance(
                    item, (int, float, str, list, dict, set, torch.Tensor)
                ):
                    self.holders.append(_Attribute(part, name))
                    yield item, f"{part.__name__}.{name}"

    def _cell(self, cell: Any, path: str) -> Iterator[tuple[Any, str]]:
        try:
            item = cell.cell_contents
        except ValueError:
            return
        self.holders.append(_Attribute(cell, "cell_contents"))
        yield item, path

    def _function(self, function: Any, path: str) -> Iterator[tuple[Any, str]]:
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            yield cell, name
        if function.__defaults__:
            yield function.__defaults__, f"{path} defaults"
        file = code.co_filename
        if code in self._codes or _library(file):
            return
        self._codes.add(code)
        found: dict[str, Any] = {}
        for name in _names(code):
            if name in function.__globals__ and not name.startswith("__"):
                found[name] = function.__globals__[name]
        for name, item in found.items():
            if isinstance(item, type):
                yield from self._class(item, name)
                continue
            if isinstance(item, types.ModuleType):
                continue
            if not isinstance(item, types.FunctionType):
                self.holders.append(_Name(function.__globals__, name))
            wrapped = getattr(item, "_torchdynamo_orig_callable", None)
            yield wrapped if callable(wrapped) else item, name


class _Attribute:
    """A holder of one value: an attribute, or the content of a cell."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def get(self) -> Any:
        return getattr(self.owner, self.name)

    def set(self, value: Any) -> None:
        setattr(self.owner, self.name, value)


def _is_block(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return bool(value.dtype != object and value.flags.writeable)
    return isinstance(value, (bytearray, array))


def _bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytearray) else bytes(value.tobytes())


class _Block:
    """A holder of plain numbers: a bytearray, an array, a numpy array."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self) -> Any:
        return self.value[:] if not hasattr(self.value, "copy") else self.value.copy()

    def put(self, held: Any) -> None:
        if _bytes(self.value) == _bytes(held):
            return
        if hasattr(self.value, "dtype"):
            self.value[...] = held
        else:
            self.value[:] = held


class _Generator:
    """A holder of the state of a random generator."""

    def __init__(self, value: torch.Generator) -> None:
        self.value = value

    def get(self) -> Any:
        return self.value.get_state()

    def put(self, held: Any) -> None:
        if not torch.equal(self.value.get_state(), held):
            self.value.set_state(held)


class _Name(_Attribute):
    """A holder of one global."""

    def get(self) -> Any:
        return self.owner[self.name]

    def set(self, value: Any) -> None:
        self.owner[self.name] = value


def _within(function: Any) -> Any:
    """The callable that dynamo has put a frame of its own around."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_filename.endswith("external_utils.py") and function.__closure__:
        return function.__closure__[0].cell_contents
    return function


def registered() -> Iterator[Any]:
    """Python functions that any call may come to without naming them: custom ops, global hooks."""
    library = sys.modules.get("torch._library.custom_ops")
    found: list[Any] = []
    for op in list(getattr(library, "OPDEFS", {}).values()):
        told = vars(op)
        found += [told.get("_init_fn"), told.get("_backward_fn"), told.get("_setup_context_fn")]
        found += told.get("_backend_fns", {}).values()
    for kind in ("forward_pre", "forward", "backward_pre", "backward"):
        found += getattr(torch.nn.modules.module, f"_global_{kind}_hooks", {}).values()
    for one in found:
        function = getattr(one, "__func__", one)
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        code = getattr(function, "__code__", None)
        if code is not None and not _library(code.co_filename):
            yield one
            yield function


def _library(file: str) -> bool:
    return "site-packages" in file or file.startswith((_TORCH, _OWN))


def _names(code: Any) -> Iterator[str]:
    """The names that a function and those made inside it may look up in globals."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def content(holder: Any) -> Any:
    """What a holder holds now, one level deep."""
    if isinstance(holder, (_Attribute, _Block, _Generator)):
        return holder.get()
    return dict(holder) if isinstance(holder, dict) else list(holder)


def fill(holder: Any, held: Any) -> None:
    """Make a holder hold this; nothing is written where it does already."""
    if isinstance(holder, (_Block, _Generator)):
        holder.put(held)
    elif isinstance(holder, _Attribute):
        if holder.get() is not held:
            holder.set(held)
    elif isinstance(holder, dict):
        same = len(holder) == len(held) and all(
            a is b and holder[a] is held[b] for a, b in zip(holder, held, strict=True)
        )
        if same:
            return
        by_tensors = any(isinstance(k, torch.Tensor) for k in (*holder, *held))
        if not by_tensors and list(holder) == list(held):
            for key, value in held.items():
                dict.__setitem__(holder, key, value)
        else:
            dict.clear(holder)
            for key, value in held.items():
                dict.__setitem__(holder, key, value)
    elif len(holder) != len(held) or any(a is not b for a, b in zip(holder, held, strict=True)):
        holder.clear()
        (holder.update if isinstance(holder, set) else holder.extend)(held)


class World:
    """What a call reaches, as it was when this was made."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, dict(kwargs)
        walk = self._walk(args, kwargs)
        self.outside = walk.outside
        self.tensors = [(leaf.path, leaf.value) for leaf in walk.leaves if leaf.kind == "tensor"]
        self.plain = {
            leaf.path: leaf.value for leaf in walk.leaves if leaf.kind in ("plain", "block")
        }
        self._held = [(holder, content(holder)) for holder in walk.holders]
        for _, tensor in self.tensors:
            if not plain(tensor):
                kind = type(tensor).__name__
                self.outside.append(f"a {kind} takes part, a tensor of another class")
                break

    def _walk(self, args: Any, kwargs: Any) -> Walk:
        walk = Walk()
        for n, value in enumerate(args):
            walk.visit(value, f"args[{n}]")
        for name, value in kwargs.items():
            walk.visit(value, name)
        walk.visit(_within(self.function), "")
        for n, function in enumerate(registered()):
            walk.visit(function, f"registered[{n}]")
        return walk

    def leaves(self, args: Any = None, kwargs: Any = None) -> list[Leaf]:
        """What is reached now, from these arguments in place of the call's own."""
        return self._walk(
            self.args if args is None else args, self.kwargs if kwargs is None else kwargs
        ).leaves

    def rebase(self, copy: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Hold other tensors in the place of those of the call."""
        self.args = tuple(replaced(value, copy) for value in self.args)
        self.kwargs = {name: replaced(value, copy) for name, value in self.kwargs.items()}
        self._held = [(holder, _replaced(holder, held, copy)) for holder, held in self._held]
        self.tensors = [(path, copy(tensor)) for path, tensor in self.tensors]

    @contextmanager
    def as_it_was(self, copy: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[Any]:
        """Everything as when this was made, with copies for tensors; yields (args, kwargs).

        What is found now is put back at the end.
        """
        now = [(holder, content(holder)) for holder, _ in self._held]
        try:
            for holder, held in self._held:
                fill(holder, _replaced(holder, held, copy))
            args = tuple(replaced(value, copy) for value in self.args)
            yield args, {name: replaced(value, copy) for name, value in self.kwargs.items()}
        finally:
            for holder, held in reversed(now):
                fill(holder, held)


def _replaced(holder: Any, held: Any, copy: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(holder, (_Block, _Generator)):
        return held
    if isinstance(holder, _Attribute):  # a list that is named stays itself: it is a holder too
        return replaced(held, copy)
    if type(held) is list:
        return [replaced(value, copy) for value in held]
    if type(held) is dict:
        return {replaced(k, copy): replaced(v, copy) for k, v in held.items()}
    return replaced(held, copy)


def replaced(value: Any, copy: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A value with copies of the tensors in it; the value itself where there are none."""
    if isinstance(value, torch.Tensor):
        return copy(value)
    if isinstance(value, tuple):
        made = [replaced(item, copy) for item in value]
        if all(a is b for a, b in zip(made, value, strict=True)):
            return value
        kind = type(value)
        if hasattr(kind, "_make"):
            return kind._make(made)
        return tuple(made) if kind is tuple else kind(made)
    return value


def copier(copies: Copies, keep: Callable[[torch.Tensor], bool]) -> Callable[..., torch.Tensor]:
    """What replaces a tensor: itself where it is kept, else its copy."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if keep(tensor) else copies.of(tensor)

    return copy
