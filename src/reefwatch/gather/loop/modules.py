"""The module tree around given parameters, found among the living objects.

No hook, no patch: one walk over what the garbage collector knows. It also works where no op can be
seen, inside compiled code. About 50 ms for half a million objects, so it is asked for a few times
in a run at most.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any


class Root:
    """A module that is not part of another one and holds parameters that were asked about."""

    def __init__(self, torch: Any, module: Any) -> None:
        self.module = weakref.ref(module)
        self.name = type(module).__name__
        self.params = {id(p): (weakref.ref(p), name) for name, p in module.named_parameters()}
        self.owners: dict[int, weakref.ref[Any]] = {}
        self.noisy: list[weakref.ref[Any]] = []
        for part in module.modules():
            for param in part._parameters.values():
                if param is not None:
                    self.owners[id(param)] = weakref.ref(part)
            if _differs_in_training(torch, part):
                self.noisy.append(weakref.ref(part))

    def noisy_in(self, training: bool) -> bool:
        """True when a module that acts differently in training is in that mode."""
        return any(m is not None and m.training is training for m in _alive(self.noisy))


def _alive(refs: Iterable[weakref.ref[Any]]) -> Iterator[Any]:
    return (target for ref in refs if (target := ref()) is not None)


def _differs_in_training(torch: Any, module: Any) -> bool:
    """Dropout that drops, and batch statistics that are kept: the mode changes the result."""
    nn = torch.nn
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return bool(module.p > 0)
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return bool(module.track_running_stats)
    if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
        return bool(module.dropout > 0)
    return False


class Modules:
    """Roots by parameter."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._roots: dict[int, Root] = {}
        self.roots: list[Root] = []

    def learn(self, params: Iterable[Any]) -> None:
        """Find the roots of the parameters that are not known yet."""
        wanted = {id(p) for p in params if self.root(p) is None}
        if not wanted:
            return
        kind = self._torch.nn.Module
        modules = [
            o for o in gc.get_objects() if issubclass(type(o), kind) and "_modules" in vars(o)
        ]
        parents: dict[int, Any] = {}
        for module in modules:
            for child in module._modules.values():
                parents.setdefault(id(child), module)
        for module in modules:
            if any(id(p) in wanted for p in module._parameters.values()):
                self._add(_top(module, parents))

    def _add(self, module: Any) -> None:
        if any(root.module() is module for root in self.roots):
            return
        root = Root(self._torch, module)
        self.roots.append(root)
        for key in root.params:
            self._roots[key] = root

    def root(self, param: Any) -> Root | None:
        root = self._roots.get(id(param))
        return root if root is not None and root.params[id(param)][0]() is param else None

    def name(self, param: Any) -> str:
        """Its name in `named_parameters()` of its root; empty when no module holds it.

        With several roots the root's class stands before it.
        """
        root = self.root(param)
        if root is None:
            return ""
        name = root.params[id(param)][1]
        return name if len(self.roots) == 1 else f"{root.name}.{name}"

    def owner(self, param: Any) -> Any:
        """The module that holds it directly, or None."""
        root = self.root(param)
        ref = root.owners.get(id(param)) if root is not None else None
        return ref() if ref is not None else None


def _top(module: Any, parents: dict[int, Any]) -> Any:
    seen = {id(module)}
    while (parent := parents.get(id(module))) is not None and id(parent) not in seen:
        module = parent
        seen.add(id(module))
    return module
