"""Where an fp32 operand came from: the op that made it, or the parameter or buffer that it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from reefwatch.gather.precision.rows import Row
from reefwatch.gather.precision.saved import Kept


class Blame:
    """Answers for one audit. Names are looked up when a row is new, so once per place."""

    def __init__(self, torch: Any, kept: Kept) -> None:
        self._tensor = torch.Tensor
        self._parameter = torch.nn.Parameter
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._strided = torch.strided
        self._high = (torch.float32, torch.float64)
        self._kept = kept
        self._names: dict[int, str] = {}
        self._roots = 0

    def of(self, args: Iterable[Any], modules: Any) -> tuple[Row | None, str]:
        """(the row that made the first fp32 operand, in words where that one came from)."""
        words = ""
        for arg in self._wide(args):
            stored = type(arg) in self._plain and arg.layout is self._strided
            owner: Row | None = self._kept.owner(arg) if stored else None
            if owner is not None and not isinstance(arg, self._parameter):
                root = owner.root
                return owner, f"{root.name} at {root.site.file}:{root.site.line}"
            words = words or self._held(arg, modules)
        return None, words

    def _wide(self, args: Iterable[Any]) -> Iterator[Any]:
        for arg in args:
            if isinstance(arg, (list, tuple)):
                yield from self._wide(arg[:1])
            elif isinstance(arg, self._tensor) and arg.dtype in self._high:
                yield arg

    def _held(self, arg: Any, modules: Any) -> str:
        """`the parameter head.weight`, `the buffer rotary.inv_freq`, or an input."""
        if modules is not None and len(modules.roots) != self._roots:
            self._roots = len(modules.roots)
            for path, module in modules.named():
                for kind, held in (("parameter", module._parameters), ("buffer", module._buffers)):
                    for name, tensor in held.items():
                        if tensor is not None:
                            told = f"the {kind} {path}.{name} in fp32"
                            self._names.setdefault(id(tensor), told)
        name = self._names.get(id(arg))
        if name is not None:
            return name
        return "a parameter in fp32" if isinstance(arg, self._parameter) else "an input in fp32"
