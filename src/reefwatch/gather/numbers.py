"""Numbers that stand for tensors, made tensors again before an op is called anew.

A tensor that torch itself made of a number comes to Python as that number: the constants of a
traced graph are such. Arithmetic takes a number for a tensor, other ops refuse it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reefwatch.gather.patches import opaque

_NUMBERS = frozenset((bool, int, float, complex))
_TENSORS = ("Tensor", "Optional[Tensor]")

Box = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
"""(an overload, its arguments as they came) -> the arguments to call it with."""


def make_box(torch: Any) -> Box:
    """A function that boxes; what it learns of each op is kept."""
    places: dict[Any, tuple[int, ...]] = {}
    kinds = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
    accepts = torch._C._should_allow_numbers_as_tensors

    def learn(func: Any) -> tuple[int, ...]:
        schema = getattr(func, "_schema", None)
        if schema is None or accepts(func._opname):
            return ()
        types = [str(argument.type) for argument in schema.arguments]
        return tuple(n for n, kind in enumerate(types) if kind in _TENSORS)

    def box(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        where = places.get(func)
        if where is None:
            where = places[func] = learn(func)
        for place in where:
            if place < len(args) and type(args[place]) in _NUMBERS:
                break
        else:
            return args
        told = list(args)
        for place in where:
            if place < len(told) and type(told[place]) in _NUMBERS:
                told[place] = torch.tensor(told[place], dtype=kinds[type(told[place])])
        return tuple(told)

    opaque(torch, box, learn)
    return box
