"""Shadows of LDS: one byte for each unit of LDS, where a unit is the program's smallest access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Translation
    from reefwatch.isa.state import State

_DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}

#: every byte of an item set, by the item's size
ONES: dict[int, int] = {width: int(np.iinfo(dtype).max) for width, dtype in _DTYPES.items()}


def lds_unit(translation: Translation) -> int:
    """The smallest element of LDS that the program touches, in bytes."""
    sizes: list[int] = [
        effect.access.size
        for effects in translation.slot_effects
        for effect in effects
        if effect.kind == "memory" and effect.access.space == "lds"
    ]
    return min([4, *sizes])


_REPEAT = {width: dtype(int("01" * width, 16)) for width, dtype in _DTYPES.items()}


class Shadow:
    """One byte of knowledge for each unit; several units are read and written at once."""

    def __init__(self, st: State, unit: int) -> None:
        self.unit = unit
        size = (len(st.lds_store.bytes) // unit + 8 + 7) // 8 * 8
        self.bytes = np.zeros(size, np.uint8)
        self.views = {width: self.bytes.view(dtype) for width, dtype in _DTYPES.items()}

    def spans(self, access: Any, flat: Any) -> list[tuple[Any, Any]]:
        """(view, index) pairs that cover the access."""
        width = access.bytes // self.unit
        units = flat // self.unit if self.unit > 1 else flat
        if width in (1, 2, 4, 8) and (
            width == 1 or not int(np.bitwise_or.reduce(units)) & (width - 1)
        ):
            return [(self.views[width], units // width if width > 1 else units)]
        return [(self.bytes, units + n) for n in range(width)]


def repeated(tag: Any, view: Any) -> Any:
    """A byte tag repeated to fill each item of a view."""
    if view.itemsize == 1:
        return tag
    return tag.astype(view.dtype) * _REPEAT[view.itemsize]
