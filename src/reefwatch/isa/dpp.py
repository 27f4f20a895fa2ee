"""Data-parallel primitives: which lane each lane reads from (RDNA3 ISA guide, "DPP")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LaneMove:
    """Where each lane reads: `index`; `inside` its row or not; `enabled` by row and bank masks."""

    index: Any
    inside: Any
    enabled: Any
    zero_invalid: bool  # bound_ctrl: what is not inside reads 0 instead of keeping the result
    any_lane: bool  # fi: lanes that take no part may be read


def dpp_lanes(modifiers: dict[str, str], wave: int) -> LaneMove | None:
    """Consume the DPP modifiers; None where they name no move."""
    lane = np.arange(wave)
    row, place = lane // 16 * 16, lane % 16
    index, inside = None, np.ones(wave, bool)
    for name in list(modifiers):
        if name not in _MOVES:
            continue
        value = modifiers.pop(name)
        index, inside = _MOVES[name](lane, row, place, value, wave)
    if index is None:
        return None
    rows = int(modifiers.pop("row_mask", "0xf"), 0)
    banks = int(modifiers.pop("bank_mask", "0xf"), 0)
    enabled = ((rows >> lane // 16 % 4) & 1 == 1) & ((banks >> place // 4) & 1 == 1)
    zero = modifiers.pop("bound_ctrl", "") in ("1", "0")
    any_lane = modifiers.pop("fi", "0") == "1"
    return LaneMove(np.where(inside, index, lane), inside, enabled, zero, any_lane)


def _list(value: str) -> Any:
    return np.array([int(part) for part in value.strip("[]").split(",")])


def _whole(index: Any) -> tuple[Any, Any]:
    return index, np.ones(len(index), bool)


def _shift(lane: Any, row: Any, at: Any) -> tuple[Any, Any]:
    return row + at % 16, (at >= 0) & (at < 16)


def _row_bcast(lane: Any, row: Any, place: Any, value: str, wave: int) -> tuple[Any, Any]:
    """gfx9: the last lane of the row (or of the half wave) before, to the rows after it."""
    source = row - 1 if value == "15" else lane // 32 * 32 - 1
    return np.maximum(source, 0), source >= 0


_MOVES: dict[str, Callable[[Any, Any, Any, str, int], tuple[Any, Any]]] = {
    "quad_perm": lambda n, r, p, v, w: _whole(n // 4 * 4 + _list(v)[n % 4]),
    "dpp8": lambda n, r, p, v, w: _whole(n // 8 * 8 + _list(v)[n % 8]),
    "row_shr": lambda n, r, p, v, w: _shift(n, r, p - int(v)),
    "row_shl": lambda n, r, p, v, w: _shift(n, r, p + int(v)),
    "row_ror": lambda n, r, p, v, w: _whole(r + (p - int(v)) % 16),
    "row_mirror": lambda n, r, p, v, w: _whole(r + 15 - p),
    "row_half_mirror": lambda n, r, p, v, w: _whole(r + p // 8 * 8 + 7 - p % 8),
    "row_share": lambda n, r, p, v, w: _whole(r + int(v)),
    "row_newbcast": lambda n, r, p, v, w: _whole(r + int(v)),
    "row_xmask": lambda n, r, p, v, w: _whole(r + (p ^ int(v))),
    "row_bcast": _row_bcast,
    "wave_shl": lambda n, r, p, v, w: (np.minimum(n + 1, w - 1), n + 1 < w),
    "wave_shr": lambda n, r, p, v, w: (np.maximum(n - 1, 0), n > 0),
    "wave_rol": lambda n, r, p, v, w: _whole((n + 1) % w),
    "wave_ror": lambda n, r, p, v, w: _whole((n - 1) % w),
}
