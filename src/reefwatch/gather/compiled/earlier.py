"""What was compiled before the watch began: a trainer's callback comes when the model is made.

A compiled module holds its compiled call in one attribute, in whose place the guard's is put. A
compiled function lies in variables of the program, where nobody can stand before it: it is counted.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

_SLOTS = ("_forward", "forward", "_compiled_call_impl")
"""Where a module keeps its compiled call: torch.compile(module), and module.compile()."""


class Earlier:
    """Modules and functions that are compiled already."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        """Names of the compiled functions that cannot be watched."""
        self._taken: list[tuple[weakref.ref[Any], str, Any, Any]] = []

    def adopt(self, frames: Any, stand_before: Callable[[Any, Any, tuple[str, int]], Any]) -> None:
        """Put the guard before each compiled module there is; `frames` is dynamo's eval_frame."""
        nn = sys.modules["torch"].nn
        seen: set[int] = set()
        loose: dict[int, Any] = {}
        for thing in gc.get_objects():
            kind = type(thing)
            if kind is FunctionType:
                if _known(frames, thing) is not None:
                    loose[id(thing)] = thing
            elif issubclass(kind, nn.Module):
                for slot in _SLOTS:
                    seen |= self._take(frames, thing, slot, stand_before)
        self.functions = [
            str(getattr(one, "__qualname__", "function"))
            for number, one in loose.items()
            if number not in seen and not _of_torch(one)
        ]

    def _take(self, frames: Any, module: Any, slot: str, stand_before: Any) -> set[int]:
        there = module.__dict__.get(slot)
        known = _known(frames, there)
        if known is None:
            return set()
        context, made, place = known
        guarded = stand_before(context, made, place or _place(module))
        if guarded is not made:
            module.__dict__[slot] = guarded
            self._taken.append((weakref.ref(module), slot, there, guarded))
        return {id(there), id(made), id(guarded)}

    def restore(self) -> None:
        """Put the compiled calls back, where the program has not put others."""
        while self._taken:
            reference, slot, made, guarded = self._taken.pop()
            module = reference()
            if module is not None and module.__dict__.get(slot) is guarded:
                module.__dict__[slot] = made


def _known(frames: Any, there: Any) -> tuple[Any, Any, tuple[str, int] | None] | None:
    """(context, what dynamo made, place) of a compiled function; None for any other thing."""
    if type(there) is not FunctionType or "_torchdynamo_orig_callable" not in there.__dict__:
        return None
    cells = dict(zip(there.__code__.co_freevars, there.__closure__ or (), strict=False))
    if "use" in cells and "roles" in cells:  # the guard of a watch that is over
        use = cells["use"].cell_contents
        return use.context, use.compiled, (use.file, use.line)
    context = cells["self"].cell_contents if "self" in cells else None
    known = isinstance(context, frames.OptimizeContext) and not getattr(context, "export", False)
    return (context, there, None) if known else None


def _of_torch(function: Any) -> bool:
    module = str(getattr(function, "__module__", ""))
    return module == "torch" or module.startswith("torch.")


def _place(module: Any) -> tuple[str, int]:
    """Where the module that was compiled is written: the call of torch.compile is long over."""
    original = getattr(module, "_orig_mod", module)
    code = getattr(type(original).forward, "__code__", None)
    return ("", 0) if code is None else (code.co_filename, code.co_firstlineno)
