"""The op layer below all modes: a dispatch key of torch's that nothing else uses.

A dispatch mode changes the run (docs/decisions/0004): while one is on, C++ code takes paths that
are safe for tensor subclasses. A key in the thread's own key set is asked about by nobody: each op
comes to the key's fallback, after autograd, autocast, the user's modes and subclasses, and is then
called again without the key.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from reefwatch.gather.mode import caller
from reefwatch.gather.numbers import make_box
from reefwatch.gather.patches import Patches, get_ident, unseen

KEY = "Fake"
"""Reserved for fake tensors made in C++, which torch 2.13 does not have yet."""
_SET = ("set_.source_Storage", "set_.source_Storage_storage_offset")
_FRESH = ("detach", "alias", "lift_fresh", *_SET)
"""`Tensor._make_subclass`, `as_subclass` and constructors take what these give and make it another
class, which fails for a tensor that Python has seen. They compute nothing, so they are not seen."""
_EMPTY = "empty.memory_format"
"""The same holds for `MyTensor(2, 3)`, as soon as there is a subclass of the user's own."""


class Key:
    """The one fallback of this process. Registered for good; inert while nobody listens."""

    def __init__(self, torch: Any, clock: Callable[[], float]) -> None:
        core = torch._C
        self.layer: Any = None
        """Who is told."""
        self.thread = 0
        self._torch = torch
        self._key = core._dispatch_key_parse(KEY)
        self._this = core.DispatchKeySet(self._key)
        self._include = core._dispatch_tls_set_dispatch_key_included
        self._libraries: list[Any] = []
        library = torch.library.Library("_", "IMPL")
        library.fallback(self._make_handler(torch, clock), KEY)
        self._libraries.append(library)
        self._overlook(*_FRESH)
        if any(_is_users(kind) for kind in torch.Tensor.__subclasses__()):
            self._overlook(_EMPTY)
        _pass_higher_order(torch, self._key)

    def enter(self, layer: Any) -> bool:
        """See the ops of the calling thread. False when another layer does."""
        if self.layer is not None and self.layer is not layer:
            return False
        self.layer, self.thread = layer, get_ident()
        self._include(self._key, True)
        return True

    def leave(self) -> None:
        """Tell of no more ops; those of another thread still come here, and are passed on."""
        self.layer, self.thread = None, 0
        self._include(self._key, False)

    def settle(self) -> None:
        """Make the thread's key set agree with whether it is looked at."""
        self._include(self._key, self.layer is not None and self.thread == get_ident())

    def shut(self) -> Any:
        """A context without the key."""
        return self._torch._C._ExcludeDispatchKeyGuard(self._this)

    def follow_classes(self, patches: Patches, dispatching: Callable[[], None]) -> None:
        """Learn of tensor subclasses of the user's own when they are defined.

        `dispatching` is called for one with a `__torch_dispatch__` of its own.
        """
        self._dispatching = dispatching
        patches.put(self._torch.Tensor, "__init_subclass__", _Subclassed(self, self._torch.Tensor))

    def subclassed(self, kind: type) -> None:
        """A subclass of Tensor is being defined."""
        if _is_users(kind):
            self._overlook(_EMPTY)
            if self._dispatching is not None and dispatches(self._torch, kind):
                self._dispatching()

    def _overlook(self, *names: str) -> None:
        if _EMPTY in names and self._empty:
            return
        library = self._torch.library.Library("aten", "IMPL", KEY)
        for name in names:
            library.impl(name, self._torch.library.fallthrough_kernel)
        self._libraries.append(library)
        self._empty = self._empty or _EMPTY in names

    _empty = False
    _dispatching: Callable[[], None] | None = None

    def _make_handler(self, torch: Any, clock: Callable[[], float]) -> Callable[..., Any]:
        core = torch._C
        without = core._ExcludeDispatchKeyGuard
        this = self._this
        quiet = core.DisableTorchFunction
        excluded = core._dispatch_tls_is_dispatch_key_excluded
        python = core._dispatch_key_parse("Python")
        compiling = core._dynamo.eval_frame.get_eval_frame_callback
        boxed = make_box(torch)

        def ahead(layer: Any, func: Any, args: Any, kwargs: Any) -> None:
            if not excluded(python) and compiling() is None:
                began = clock()
                with quiet():
                    layer.ahead(func, args, kwargs)
                layer.seconds += clock() - began

        def handler(func: Any, /, *args: Any, **kwargs: Any) -> Any:
            layer = self.layer
            args = boxed(func, args)
            with without(this):
                if layer is not None and layer.ahead is not None:
                    ahead(layer, func, args, kwargs)
                if func._namespace in ("aten", "prims"):
                    with quiet():  # the user's function modes have had their say above
                        out = func._op(*args, **kwargs)
                        # where Python is shut out, torch makes and fakes tensors
                        if layer is not None and not excluded(python) and compiling() is None:
                            began = clock()
                            layer.observe(func, args, kwargs, out, caller(code))
                            layer.seconds += clock() - began
                        return out
                out = func._op(*args, **kwargs)
                if layer is not None and not excluded(python) and compiling() is None:
                    began = clock()
                    with quiet():
                        layer.observe(func, args, kwargs, out, caller(code))
                    layer.seconds += clock() - began
                return out

        unseen(handler)
        code = handler.__code__
        return handler


class _Subclassed:
    """Stands for `Tensor.__init_subclass__`: looked up when a subclass is made, then gone."""

    def __init__(self, key: Key, tensor: type) -> None:
        self._key = key
        self._tensor = tensor

    def __get__(self, instance: Any, owner: type) -> Any:
        if owner is not self._tensor:
            self._key.subclassed(owner)
        return super(self._tensor, owner).__init_subclass__  # type: ignore[arg-type]


def _is_users(kind: type) -> bool:
    return kind.__module__.partition(".")[0] != "torch"


def dispatches(torch: Any, kind: type) -> bool:
    """True for a subclass whose ops run Python of its own."""
    usual = torch._C._disabled_torch_dispatch_impl
    return getattr(kind, "__torch_dispatch__", usual) is not usual


def _pass_higher_order(torch: Any, key: Any) -> None:
    """Operators that are dispatched in Python have a table of their own of keys to pass over."""
    from torch import _ops as ops

    ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(key)
    for operator in ops._higher_order_ops.values():
        operator.fallthrough(key)


_keys: list[Key] = []


def find(torch: Any, clock: Callable[[], float]) -> Key | None:
    """The key of this process; None where torch has no such key, or uses it itself."""
    if not _keys and _is_free(torch):
        _keys.append(Key(torch, clock))
    return _keys[0] if _keys else None


def _is_free(torch: Any) -> bool:
    try:
        core = torch._C
        ours, python = core._dispatch_key_parse(KEY), core._dispatch_key_parse("Python")
        below = core._dispatch_keyset_full_after(python).has(ours)
        return bool(below) and not core._dispatch_has_backend_fallback(ours)
    except (AttributeError, RuntimeError, TypeError):
        return False


def shut() -> Any:
    """A context in which ops of the calling thread do not come here; None when none do anyway."""
    for key in _keys:
        if key.layer is not None:
            return key.shut()
    return None


def settle() -> None:
    """Put right the calling thread's key set, after torch has put back an older one."""
    for key in _keys:
        key.settle()


def is_in_use(torch: Any) -> bool:
    """True when a dispatch mode is on, or the program has tensors that dispatch in Python.

    A fallback in Python cannot be called where torch shuts these out meanwhile.
    """
    kinds = [kind for kind in torch.Tensor.__subclasses__() if _is_users(kind)]
    return bool(torch._C._len_torch_dispatch_stack()) or any(dispatches(torch, k) for k in kinds)


compiled: set[int] = set()
"""Watches (by id) that have compiled code of the program in view."""


def is_compiled(torch: Any) -> bool:
    """True when something was handed to dynamo, whose guards would see the key.

    `torch._dynamo.reset()` forgets the backends, not what was compiled with them.
    """
    frames = sys.modules.get("torch._dynamo.eval_frame")
    backends = getattr(frames, "cached_backends", {})
    known = any(backend is not None for backend in backends.values())  # None is for `disable`
    return known or bool(compiled)
