"""The costliest ops of examined steps, with all that is needed to run them again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reefwatch.core.dtypes import FLOATS
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.precision.arithmetic import kind_of

FLOPS_PER_BYTE = 100
"""Flops that a card does while it moves a byte, roughly: ranks products among the rest."""
_RANDOM = ("rand", "bernoulli", "dropout", "normal", "multinomial", "_to_copy", "copy_")
_PLAIN = (int, float, bool, str, type(None))


@dataclass(frozen=True)
class Like:
    """A tensor's shape without its values."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    last: bool = False
    """Channels last in memory."""


@dataclass
class Costly:
    """One kind of call: an op, the likes of its arguments, and where it was called first."""

    func: Any
    name: str
    args: tuple[Any, ...]
    dtype: str
    """The dtype of its first float operand: the one that is changed when it is timed."""
    device: str
    kind: str
    module: str
    file: str
    line: int
    calls: int = 0
    cost: float = field(default=0.0, repr=False)

    @property
    def shapes(self) -> list[list[int]]:
        return [list(arg.shape) for arg in self.args if isinstance(arg, Like)]


class CostlyOps(Instrument):
    """Keeps shapes, never tensors; `top` gives the costliest kinds of calls."""

    name = "precision.costly"
    contract = "precision"
    wants_ops = True

    def __init__(self) -> None:
        self._found: dict[Any, Costly | None] = {}

    def arm(self, tools: Tools) -> None:
        self._torch = tools.torch

    def on_op(self, call: Any) -> None:
        key = self._key(call)
        if key not in self._found:
            self._found[key] = self._make(call)
        one = self._found[key]
        if one is not None:
            one.calls += 1
            formula = kind_of(call.name)[1]
            flops = formula(call.args, call.out) if formula else 0
            one.cost += flops / FLOPS_PER_BYTE + self._bytes(call)

    def _key(self, call: Any) -> Any:
        tensor = self._torch.Tensor
        return id(call.func), tuple(
            (tuple(arg.shape), arg.dtype) if isinstance(arg, tensor) else repr(arg)
            for arg in call.args
        )

    def _bytes(self, call: Any) -> int:
        tensors = (*call.args, call.out)
        return sum(t.nbytes for t in tensors if isinstance(t, self._torch.Tensor))

    def _make(self, call: Any) -> Costly | None:
        """None for an op that cannot be run again by its shapes alone."""
        base = call.name.split(".")[1]
        schema = getattr(call.func, "_schema", None)
        written = schema is None or any(a.alias_info is not None for a in schema.arguments)
        if written or call.kwargs or any(word in base for word in _RANDOM):
            return None
        args = tuple(self._like(arg) for arg in call.args)
        kinds = [a.dtype for a in args if isinstance(a, Like) and a.dtype in FLOATS]
        if not kinds or any(arg is NotImplemented for arg in args):
            return None
        if any(isinstance(a, Like) and a.dtype not in FLOATS for a in args):
            return None  # indices of unknown range
        site, device = call.site, next(a.device for a in args if isinstance(a, Like))
        kind = kind_of(call.name)[0]
        return Costly(
            call.func, call.name, args, kinds[0], device, kind, site.module, site.file, site.line
        )

    def _like(self, arg: Any) -> Any:
        torch = self._torch
        if isinstance(arg, torch.Tensor):
            if type(arg) not in (torch.Tensor, torch.nn.Parameter) or arg.layout != torch.strided:
                return NotImplemented
            last = arg.dim() == 4 and arg.is_contiguous(memory_format=torch.channels_last)
            return Like(tuple(arg.shape), short(arg.dtype), str(arg.device), last)
        if isinstance(arg, _PLAIN):
            return arg
        if isinstance(arg, (list, tuple)) and all(isinstance(one, _PLAIN) for one in arg):
            return list(arg)
        return NotImplemented

    def top(self, count: int) -> list[Costly]:
        """The costliest, the first before; half of them are the costliest of an op each.

        The cost is a guess from flops and bytes, which a naive kernel exceeds by far: so that it
        is not crowded out by many shapes of one product, every op has its turn.
        """
        found = [one for one in self._found.values() if one is not None]
        found.sort(key=lambda one: -one.cost)
        kept = found[: (count + 1) // 2]
        for one in found:
            if len(kept) < count and all(one.name != other.name for other in kept):
                kept.append(one)
        kept += [one for one in found if not any(one is other for other in kept)]
        return sorted(kept[:count], key=lambda one: -one.cost)
