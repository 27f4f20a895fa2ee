"""Conversions against exact fractions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from reefwatch.isa import blocks  # noqa: F401 - declares the instructions
from reefwatch.isa.small_floats import decode8
from reefwatch.isa.table import TABLE
from tests.isa.exact import NAN, pack, unpack
from tests.isa.one import fresh, get, put, run
from tests.isa.test_valu_float import same
from tests.isa.test_valu_float import samples as floats
from tests.isa.test_valu_int import CORNERS, instruction, signed

LANES = 32 * 24


def limited(value, low: int, high: int) -> int:
    if value == NAN:
        return 0
    return max(low, min(high, value if isinstance(value, float) else math.trunc(value)))


def below(value):
    return value if isinstance(value, float | str) else math.floor(value)


def toward_zero_f16(bits: int) -> int | str:
    value = unpack(bits, 32)
    if value == 0:
        return bits >> 16 & 0x8000
    near = pack(value, 16)
    if near == NAN or isinstance(value, float):
        return near
    back = unpack(near, 16)
    over = isinstance(back, float) or abs(back) > abs(value)
    return near - 1 if over else near


def pair(low: int | str, high: int | str) -> int | str:
    return NAN if NAN in (low, high) else (low & 0xFFFF) | (high & 0xFFFF) << 16


def bf16(bits: int) -> int | str:
    if unpack(bits, 32) == NAN:
        return NAN
    low, high = bits & 0xFFFF, bits >> 16
    return high + (low > 0x8000 or (low == 0x8000 and high & 1))


I32, U32 = (-(2**31), 2**31 - 1), (0, 2**32 - 1)
#: mnemonic -> (source width, is it a float, result width, is it a float, reference on patterns)
CASES: dict[str, tuple[int, bool, int, bool, Callable]] = {
    "v_cvt_f32_i32": (32, False, 32, True, lambda a: pack(signed(a), 32)),
    "v_cvt_f32_u32": (32, False, 32, True, lambda a: pack(a, 32)),
    "v_cvt_i32_f32": (32, True, 32, False, lambda a: limited(unpack(a, 32), *I32)),
    "v_cvt_u32_f32": (32, True, 32, False, lambda a: limited(unpack(a, 32), *U32)),
    "v_cvt_f32_f16": (16, True, 32, True, lambda a: pack(unpack(a, 16), 32)),
    "v_cvt_f16_f32": (32, True, 16, True, lambda a: pack(unpack(a, 32), 16)),
    "v_cvt_f16_i16": (16, False, 16, True, lambda a: pack(signed(a, 16), 16)),
    "v_cvt_f16_u16": (16, False, 16, True, lambda a: pack(a, 16)),
    "v_cvt_i16_f16": (16, True, 16, False, lambda a: limited(unpack(a, 16), -(2**15), 2**15 - 1)),
    "v_cvt_u16_f16": (16, True, 16, False, lambda a: limited(unpack(a, 16), 0, 2**16 - 1)),
    "v_cvt_i32_i16": (16, False, 32, False, lambda a: signed(a, 16)),
    "v_cvt_u32_u16": (16, False, 32, False, lambda a: a),
    "v_cvt_f64_f32": (32, True, 64, True, lambda a: pack(unpack(a, 32), 64)),
    "v_cvt_f32_f64": (64, True, 32, True, lambda a: pack(unpack(a, 64), 32)),
    "v_cvt_f64_i32": (32, False, 64, True, lambda a: pack(signed(a), 64)),
    "v_cvt_f64_u32": (32, False, 64, True, lambda a: pack(a, 64)),
    "v_cvt_i32_f64": (64, True, 32, False, lambda a: limited(unpack(a, 64), *I32)),
    "v_cvt_u32_f64": (64, True, 32, False, lambda a: limited(unpack(a, 64), *U32)),
    "v_cvt_f32_ubyte0": (32, False, 32, True, lambda a: pack(a & 255, 32)),
    "v_cvt_f32_ubyte1": (32, False, 32, True, lambda a: pack(a >> 8 & 255, 32)),
    "v_cvt_f32_ubyte2": (32, False, 32, True, lambda a: pack(a >> 16 & 255, 32)),
    "v_cvt_f32_ubyte3": (32, False, 32, True, lambda a: pack(a >> 24, 32)),
    "v_cvt_floor_i32_f32": (
        32, True, 32, False,
        lambda a: limited(below(unpack(a, 32)), *I32),
    ),
    "v_cvt_pk_rtz_f16_f32": (
        32, True, 32, False, lambda a, b: pair(toward_zero_f16(a), toward_zero_f16(b)),
    ),
    "v_cvt_pk_bf16_f32": (32, True, 32, False, lambda a, b: pair(bf16(a), bf16(b))),
    "v_cvt_pk_u16_u32": (32, False, 32, False, lambda a, b: pair(min(a, 65535), min(b, 65535))),
    "v_cvt_pk_i16_i32": (
        32, False, 32, False,
        lambda a, b: pair(*(max(-32768, min(32767, signed(x))) for x in (a, b))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_fractions(name: str) -> None:
    width, is_float, out_width, out_float, reference = CASES[name]
    row = TABLE.lane[name]
    rng = random.Random(name)
    count = len(row.reads)
    if is_float:
        values = floats(width, count, rng)
    else:
        values = [tuple(rng.choice(CORNERS[width]) for _ in range(count)) for _ in range(64)]
        while len(values) < LANES:
            values.append(
                tuple(rng.getrandbits(width) >> rng.randrange(width) for _ in range(count))
            )
    st = fresh(waves=LANES // 32)
    for n in range(count):
        put(st, 8 + 2 * n, [value[n] for value in values], max(width, 32))
    run(st, instruction(name, row))
    for value, got in zip(values, get(st, 2, out_width), strict=True):
        wanted = reference(*value)
        if wanted == NAN and not out_float:
            continue  # a NaN inside a packed pair: its payload is not claimed
        if out_float:
            assert same(got, wanted, out_width), [hex(v) for v in value]
        else:
            assert got == wanted & (1 << out_width) - 1, [hex(v) for v in value]


def test_every_f16_from_f32_and_back() -> None:
    st = fresh(waves=2048)
    put(st, 8, list(range(65536)))
    run(st, "v_cvt_f32_f16_e32 v2, v8\nv_cvt_f16_f32_e32 v3, v2")
    for code, back in enumerate(get(st, 3, 16)):
        assert same(back, NAN if unpack(code, 16) == NAN else code, 16)


@pytest.mark.parametrize(
    ("kind", "fnuz", "samples"),
    [
        ("fp8", False, {0x7E: 448.0, 0x01: 2.0**-9, 0x08: 2.0**-6, 0x38: 1.0, 0xB8: -1.0}),
        ("bf8", False, {0x7B: 57344.0, 0x01: 2.0**-16, 0x3C: 1.0, 0x7C: math.inf}),
        ("fp8", True, {0x7F: 240.0, 0x01: 2.0**-10, 0x40: 1.0, 0xC0: -1.0}),
        ("bf8", True, {0x7F: 57344.0, 0x01: 2.0**-17, 0x40: 1.0}),
    ],
)
def test_8_bit_floats(kind: str, fnuz: bool, samples: dict[int, float]) -> None:
    """Largest, smallest and one of each format; all codes rise with their magnitude."""
    table = decode8(kind, fnuz)
    for code, value in samples.items():
        assert table[code] == value
    finite = table[:128][np.isfinite(table[:128])]
    assert (np.diff(finite) > 0).all()
    assert np.isnan(table).sum() == (1 if fnuz else 2 if kind == "fp8" else 6)
