"""Tells, once, when torch has been imported by the script. Never imports it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any


class PostImport:
    """Calls back when the module `name` has been executed to its end.

    A failing import looks as without us: no frame of ours is on the stack while the module is
    executed, and a missing module is left to the other finders to miss.
    """

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self._name = name
        self._callback: Callable[[], None] | None = callback
        self.failed = False
        """True when the module was found and could not be executed."""

    def start(self) -> None:
        """Call back at once when the module is there; else wait for it."""
        if self._name in sys.modules:
            self._fire()
        else:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Wait no longer."""
        self._callback = None
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders find, told to say when it is done."""
        if name != self._name or self._callback is None:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find else None
            if spec is not None:
                if type(spec) is ModuleSpec:
                    spec.__class__ = _Spec
                    vars(spec)["_hook"] = self
                return spec
        self.failed = True
        return None

    def executed(self) -> None:
        """The module was executed, or failed; then it is no longer in `sys.modules`."""
        if self._name in sys.modules:
            self._fire()
        else:
            self.failed = True

    def _fire(self) -> None:
        callback = self._callback
        self.stop()
        if callback is not None:
            callback()


class _Spec(ModuleSpec):
    """A spec for as long as its module is executed.

    importlib sets `_initializing` to False in a `finally`, after it has taken a failed module
    out of `sys.modules` (3.10 to 3.14, `_bootstrap._load_unlocked`).
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "_initializing" and not value:
            hook = vars(self).pop("_hook", None)
            self.__class__ = ModuleSpec  # type: ignore[assignment]
            if hook is not None:
                hook.executed()
