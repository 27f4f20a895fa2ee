"""Buffers with guards around them: what a collective writes outside of them is seen."""

from __future__ import annotations

from typing import Any

import torch

from reefwatch.experiments.dist import codes

GUARD = 16
"""Elements before and behind each buffer; in a strided one also each second element is a guard."""


class Arena:
    """The buffers of one case."""

    def __init__(self, dtype: Any, device: Any, strided: bool, key: int) -> None:
        self._dtype, self._device, self._strided, self._key = dtype, device, strided, key
        self._made: list[tuple[Any, Any, Any, str]] = []

    def buffer(self, values: Any, what: str, packed: bool = False) -> Any:
        """A buffer that holds these values, with guards around (and between) them."""
        n, stride = values.numel(), 2 if self._strided and not packed else 1
        length = 2 * GUARD + n * stride
        number = len(self._made)
        base = codes.payload(length, self._dtype, self._key, 991, number, device=self._device)
        view = base[GUARD : GUARD + n * stride : stride] if n else base[GUARD:GUARD]
        view.copy_(values)
        inside = torch.zeros(length, dtype=torch.bool, device=self._device)
        inside[GUARD : GUARD + n * stride : stride] = True
        self._made.append((base, base.clone(), inside, what))
        return view

    def empty(self, n: int, what: str = "output") -> Any:
        """A buffer of zeros that a collective is to fill."""
        return self.buffer(torch.zeros(n, dtype=self._dtype, device=self._device), what)

    def damage(self) -> str:
        """What was written outside of the buffers, in words; "" when nothing was."""
        for base, before, inside, what in self._made:
            wrong = differing(base, before) & ~inside
            if bool(wrong.any()):
                places = wrong.nonzero().flatten()
                first, last = int(places[0]) - GUARD, int(places[-1]) - GUARD
                count = f"{len(places)} elements outside of the {what}"
                return f"{count}, at {first} to {last} from its begin"
        return ""


def raw(tensor: Any) -> Any:
    """The bits of a tensor, [elements, bytes]."""
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    if flat.dtype == torch.bool:
        return flat.to(torch.uint8).view(-1, 1)
    return flat.view(torch.uint8).view(-1, flat.element_size())


def differing(one: Any, other: Any) -> Any:
    """A mask of the elements whose bits differ, [elements]."""
    if one.numel() == 0:
        return torch.zeros(0, dtype=torch.bool, device=one.device)
    return (raw(one) != raw(other)).any(1)
