"""Atomic operations: lanes one after another in effect, all different addresses at once in fact."""

from __future__ import annotations

from typing import Any

import numpy as np

from reefwatch.isa.access import Access
from reefwatch.isa.arith import bf16_to_f32, f32_to_bf16
from reefwatch.isa.state import State

_KINDS = {
    "u32": np.uint32, "i32": np.int32, "f32": np.float32, "b32": np.uint32,
    "u64": np.uint64, "i64": np.int64, "f64": np.float64, "b64": np.uint64,
}  # fmt: skip
_COMBINE = {
    "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def _minmax(name: str, kind: str) -> Any:
    if kind[0] == "f":
        return np.fmin if name == "min" else np.fmax
    return np.minimum if name == "min" else np.maximum


def _combine(operation: str, old: Any, new: Any, expected: Any) -> Any:
    """What is stored, from the old value and the operand; all arrays unsigned."""
    name, _, kind = operation.partition("_")
    if name == "pk":
        return _packed(kind, old, new)
    typed = _KINDS[kind]
    if name == "swap":
        return new
    if name == "cmpswap":
        return np.where(old == expected, new, old)
    function = _COMBINE.get(name) or _minmax(name, kind)
    return function(old.view(typed), new.view(typed)).view(old.dtype)


def _packed(kind: str, old: Any, new: Any) -> Any:
    if kind == "add_f16":
        return (old.view(np.float16) + new.view(np.float16)).view(np.uint32)
    total = bf16_to_f32(old.view(np.uint16)) + bf16_to_f32(new.view(np.uint16))
    return f32_to_bf16(total).view(np.uint32)


def _rounds(index: Any) -> list[Any]:
    """Split lanes so that no address comes twice in one round; lane order is kept."""
    order = np.argsort(index, kind="stable")
    ranked = index[order]
    fresh = np.r_[True, ranked[1:] != ranked[:-1]]
    if fresh.all():
        return [slice(None)]
    starts = np.flatnonzero(fresh)
    rank = np.arange(len(index)) - np.repeat(starts, np.diff(np.r_[starts, len(index)]))
    by_rank = np.argsort(rank, kind="stable")
    cuts = np.flatnonzero(np.diff(rank[by_rank])) + 1
    return [np.sort(order[part]) for part in np.split(by_rank, cuts)]


def apply_atomic(st: State, access: Access, places: Any, offsets: Any, store: Any) -> None:
    """Read, combine and write back, at each lane's address in turn."""
    words = access.size // 4
    table = store.words if words == 1 else store.doubles
    index = offsets >> (2 if words == 1 else 3)

    def operand(row: int) -> Any:
        low = st.R[row] if places is None else st.R[row].take(places)
        if words == 1:
            return np.ascontiguousarray(low)
        high = st.R[row + 1] if places is None else st.R[row + 1].take(places)
        return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)

    value = operand(access.data)
    expected = operand(access.data + words) if "cmpswap" in access.operation else value
    before = np.empty(len(index), table.dtype)
    for part in _rounds(index):
        at = index[part]
        old = table[at]
        before[part] = old
        table[at] = _combine(access.operation, old, value[part], expected[part])
    if access.result is None:
        return
    target = slice(None) if places is None else places
    st.R[access.result][target] = before.astype(np.uint32)
    if words == 2:
        st.R[access.result + 1][target] = (before >> np.uint64(32)).astype(np.uint32)
