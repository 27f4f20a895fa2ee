"""Comparisons of every type into masks, and into EXEC."""

from __future__ import annotations

import random

import pytest

from reefwatch.isa import blocks  # noqa: F401 - declares the instructions
from reefwatch.isa.ops.compare import _FLOAT, _INTEGER, _KINDS
from reefwatch.isa.text import EXEC
from tests.isa.exact import NAN, unpack
from tests.isa.one import fresh, mask_bits, put, run
from tests.isa.test_valu_float import CORNERS as FLOATS
from tests.isa.test_valu_int import CORNERS as INTEGERS
from tests.isa.test_valu_int import signed


def answer(condition: str, x, y) -> bool:
    """The meaning of a condition on values, as the ISA guide's tables have it."""
    unordered = NAN in (x, y)
    if condition in ("o", "u"):
        return unordered == (condition == "u")
    if condition in ("f", "t"):
        return condition == "t"
    if condition == "neq":
        return unordered or x != y
    if condition == "ne":
        return x != y
    if condition[0] == "n":
        return not answer(condition[1:], x, y)
    if unordered:
        return False
    return {"lt": x < y, "eq": x == y, "le": x <= y, "gt": x > y, "ge": x >= y, "lg": x != y}[
        condition
    ]


@pytest.mark.parametrize("kind", _KINDS)
def test_all_conditions(kind: str) -> None:
    width = int(kind[1:])
    rng = random.Random(kind)
    pool = (FLOATS if kind[0] == "f" else INTEGERS)[width]
    pairs = [(a, b) for a in pool for b in pool]
    rng.shuffle(pairs)
    pairs = pairs[: 32 * (len(pairs) // 32)]
    st = fresh(waves=len(pairs) // 32)
    put(st, 8, [a for a, _ in pairs], max(width, 32))
    put(st, 10, [b for _, b in pairs], max(width, 32))
    sources = "v[8:9], v[10:11]" if width == 64 else "v8, v10"
    for condition in _FLOAT if kind[0] == "f" else _INTEGER:
        run(st, f"v_cmp_{condition}_{kind}_e64 s20, {sources}")
        for (a, b), got in zip(pairs, mask_bits(st, 20), strict=True):
            if kind[0] == "f":
                x, y = unpack(a, width), unpack(b, width)
            else:
                x, y = (signed(v, width) if kind[0] == "i" else v for v in (a, b))
            assert got == answer(condition, x, y), (condition, hex(a), hex(b))


def test_cmpx_narrows_exec_and_lanes_that_are_off_stay_off() -> None:
    st = fresh()
    put(st, 8, list(range(32)))
    st.S[EXEC][...] = 0x0000FFFF
    run(st, "v_cmpx_lt_u32_e32 7, v8")
    assert int(st.S[EXEC][0]) == 0x0000FF00
    run(st, "v_cmp_lt_u32_e32 vcc_lo, 9, v8")
    assert mask_bits(st, 106) == [int(9 < n < 16) for n in range(32)]
