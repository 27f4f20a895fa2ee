"""Scalar instructions against Python integers: result and condition code."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable

import numpy as np
import pytest

from reefwatch.isa import blocks  # noqa: F401 - declares the instructions
from reefwatch.isa.emit import TYPES
from reefwatch.isa.generations import GFX9
from reefwatch.isa.table import TABLE
from reefwatch.isa.text import EXEC
from tests.isa.exact import pack, unpack
from tests.isa.one import fresh, run
from tests.isa.test_valu_float import OPERATIONS, same
from tests.isa.test_valu_float import samples as floats
from tests.isa.test_valu_int import CORNERS, M32, M64, signed

WAVES = 400
KEEP = None  # the condition code is not touched


def some(function: Callable) -> Callable:
    """The condition code says whether the result is not zero."""

    def both(*values, bits: int):
        result = function(*values) & (1 << bits) - 1
        return result, result != 0

    return both


def plain(function: Callable) -> Callable:
    return lambda *values, bits: (function(*values) & (1 << bits) - 1, KEEP)


def bfe(x: int, where: int, size: int, is_signed: bool) -> int:
    at, width = where & size - 1, where >> 16 & 127
    if is_signed:
        x = signed(x, size) >> at
        width = min(width, size)
        raw = x & (1 << width) - 1
        if at + width > size:
            return x  # the field reaches beyond the sign
        return raw - (1 << width) if width and raw >> width - 1 & 1 else raw
    return x >> at & (1 << min(width, size)) - 1


def overflow(total: int) -> bool:
    return not -(2**31) <= total < 2**31


BITWISE = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
    "and_not1": lambda a, b: a & ~b, "or_not1": lambda a, b: a | ~b,
}  # fmt: skip
REFERENCE: dict[str, Callable] = {
    f"s_{name}_b{bits}": some(function) for name, function in BITWISE.items() for bits in (32, 64)
}
REFERENCE |= {
    f"s_lshl{n}_add_u32": lambda a, b, bits, n=n: ((a << n) + b & M32, (a << n) + b > M32)
    for n in (1, 2, 3, 4)
}
REFERENCE |= {
    "s_mov_b32": plain(lambda a: a),
    "s_mov_b64": plain(lambda a: a),
    "s_not_b32": some(lambda a: ~a),
    "s_not_b64": some(lambda a: ~a),
    "s_brev_b32": plain(lambda a: int(f"{a:032b}"[::-1], 2)),
    "s_brev_b64": plain(lambda a: int(f"{a:064b}"[::-1], 2)),
    "s_bcnt1_i32_b32": some(int.bit_count),
    "s_bcnt1_i32_b64": some(int.bit_count),
    "s_bcnt0_i32_b32": some(lambda a: 32 - a.bit_count()),
    "s_ctz_i32_b32": plain(lambda a: (a & -a).bit_length() - 1 if a else -1),
    "s_ctz_i32_b64": plain(lambda a: (a & -a).bit_length() - 1 if a else -1),
    "s_clz_i32_u32": plain(lambda a: 32 - a.bit_length() if a else -1),
    "s_clz_i32_u64": plain(lambda a: 64 - a.bit_length() if a else -1),
    "s_sext_i32_i8": plain(lambda a: signed(a & 255, 8)),
    "s_sext_i32_i16": plain(lambda a: signed(a & 0xFFFF, 16)),
    "s_abs_i32": some(lambda a: abs(signed(a))),
    "s_lshl_b32": some(lambda a, b: a << (b & 31)),
    "s_lshl_b64": some(lambda a, b: a << (b & 63)),
    "s_lshr_b32": some(lambda a, b: a >> (b & 31)),
    "s_lshr_b64": some(lambda a, b: a >> (b & 63)),
    "s_ashr_i32": some(lambda a, b: signed(a) >> (b & 31)),
    "s_ashr_i64": some(lambda a, b: signed(a, 64) >> (b & 63)),
    "s_bfm_b32": plain(lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    "s_bfe_u32": some(lambda a, b: bfe(a, b, 32, False)),
    "s_bfe_i32": some(lambda a, b: bfe(a, b, 32, True)),
    "s_bfe_u64": some(lambda a, b: bfe(a, b, 64, False)),
    "s_bfe_i64": some(lambda a, b: bfe(a, b, 64, True)),
    "s_add_u32": lambda a, b, bits: (a + b & M32, a + b > M32),
    "s_sub_u32": lambda a, b, bits: (a - b & M32, a < b),
    "s_add_i32": lambda a, b, bits: (a + b & M32, overflow(signed(a) + signed(b))),
    "s_sub_i32": lambda a, b, bits: (a - b & M32, overflow(signed(a) - signed(b))),
    "s_mul_i32": plain(lambda a, b: a * b),
    "s_mul_hi_u32": plain(lambda a, b: a * b >> 32),
    "s_mul_hi_i32": plain(lambda a, b: signed(a) * signed(b) >> 32),
    "s_mul_u64": plain(lambda a, b: a * b),
    "s_add_nc_u64": plain(lambda a, b: a + b),
    "s_sub_nc_u64": plain(lambda a, b: a - b),
    "s_min_i32": lambda a, b, bits: (min(signed(a), signed(b)) & M32, signed(a) < signed(b)),
    "s_max_i32": lambda a, b, bits: (max(signed(a), signed(b)) & M32, signed(a) > signed(b)),
    "s_min_u32": lambda a, b, bits: (min(a, b), a < b),
    "s_max_u32": lambda a, b, bits: (max(a, b), a > b),
    "s_pack_ll_b32_b16": plain(lambda a, b: a & 0xFFFF | b << 16),
    "s_pack_lh_b32_b16": plain(lambda a, b: a & 0xFFFF | b & 0xFFFF0000),
    "s_pack_hh_b32_b16": plain(lambda a, b: a >> 16 | b & 0xFFFF0000),
    "s_pack_hl_b32_b16": plain(lambda a, b: a >> 16 | b << 16),
    "s_bitcmp0_b32": lambda a, b, bits: (0, not a >> (b & 31) & 1),
    "s_bitcmp1_b32": lambda a, b, bits: (0, bool(a >> (b & 31) & 1)),
    "s_bitcmp0_b64": lambda a, b, bits: (0, not a >> (b & 63) & 1),
    "s_bitcmp1_b64": lambda a, b, bits: (0, bool(a >> (b & 63) & 1)),
}
COMPARE = {"eq": operator.eq, "lg": operator.ne, "gt": operator.gt, "ge": operator.ge,
           "lt": operator.lt, "le": operator.le}  # fmt: skip
REFERENCE |= {
    f"s_cmp_{name}_{kind}": lambda a, b, bits, ask=ask: (0, ask(a, b))
    for name, ask in COMPARE.items()
    for kind in ("u32", "u64")
}
REFERENCE |= {
    f"s_cmp_{name}_i32": lambda a, b, bits, ask=ask: (0, ask(signed(a), signed(b)))
    for name, ask in COMPARE.items()
}


def scalars(st, first: int, values: list[int], width: int) -> None:
    st.S[first][...] = np.array([v & M32 for v in values], np.uint32)
    if width == 64:
        st.S[first + 1][...] = np.array([v >> 32 for v in values], np.uint32)


@pytest.mark.parametrize("name", REFERENCE)
def test_agrees_with_python_integers(name: str) -> None:
    row = TABLE.scalar[name]
    rng = random.Random(name)
    sizes = [TYPES[kind][2] for kind in row.reads]
    values = [tuple(rng.choice(CORNERS[size]) for size in sizes) for _ in range(WAVES // 2)]
    while len(values) < WAVES:
        values.append(tuple(rng.getrandbits(size) >> rng.randrange(size) for size in sizes))
    st = fresh(waves=WAVES)
    st.scc = np.array([n % 2 == 1 for n in range(WAVES)])
    before = st.scc.copy()
    parts = []
    if row.writes[0] != "scc":
        parts.append("s[2:3]" if TYPES[row.writes[0]][2] == 64 else "s2")
    for n, size in enumerate(sizes):
        scalars(st, 8 + 2 * n, [value[n] for value in values], size)
        parts.append(f"s[{8 + 2 * n}:{9 + 2 * n}]" if size == 64 else f"s{8 + 2 * n}")
    run(st, f"{name} {', '.join(parts)}")
    bits = 32 if row.writes[0] == "scc" else TYPES[row.writes[0]][2]
    for n, value in enumerate(values):
        result, code = REFERENCE[name](*value, bits=bits)
        got = int(st.S[2][n]) | (int(st.S[3][n]) << 32 if bits == 64 else 0)
        if row.writes[0] != "scc":
            assert got == result, [hex(v) for v in value]
        assert st.scc[n] == (before[n] if code is KEEP else code), [hex(v) for v in value]


def test_carry_chains_add_and_subtract_64_bits() -> None:
    rng = random.Random(1)
    pairs = [(rng.getrandbits(64), rng.getrandbits(64)) for _ in range(WAVES - 4)]
    pairs += [(M64, 1), (0, 1), (M32, 1), (1 << 32, M32)]
    st = fresh(waves=WAVES)
    scalars(st, 8, [a for a, _ in pairs], 64)
    scalars(st, 10, [b for _, b in pairs], 64)
    run(st, "s_add_u32 s2, s8, s10\ns_addc_u32 s3, s9, s11")
    assert [int(x) | int(y) << 32 for x, y in zip(st.S[2], st.S[3], strict=True)] == [
        a + b & M64 for a, b in pairs
    ]
    assert st.scc.tolist() == [a + b > M64 for a, b in pairs]
    run(st, "s_sub_u32 s2, s8, s10\ns_subb_u32 s3, s9, s11")
    assert [int(x) | int(y) << 32 for x, y in zip(st.S[2], st.S[3], strict=True)] == [
        a - b & M64 for a, b in pairs
    ]
    assert st.scc.tolist() == [a < b for a, b in pairs]


def test_constants_of_16_bits_are_sign_extended() -> None:
    st = fresh()
    st.S[2][...] = 10
    run(st, "s_movk_i32 s3, 0xfffe\ns_addk_i32 s2, 0xfff0")
    assert int(st.S[3][0]) == M32 - 1
    assert int(st.S[2][0]) == 10 - 16 & M32
    run(st, "s_mulk_i32 s2, 0xffff")
    assert int(st.S[2][0]) == 6
    st.S[4][...] = M32
    run(st, "s_cmpk_eq_i32 s4, 0xffff")
    assert st.scc[0]
    run(st, "s_cmpk_eq_u32 s4, 0xffff")
    assert not st.scc[0]


def test_selects_follow_the_condition_code() -> None:
    st = fresh(waves=2)
    st.scc = np.array([True, False])
    run(st, "s_cselect_b32 s2, 7, 9\ns_cselect_b64 s[4:5], -1, 0")
    assert st.S[2].tolist() == [7, 9]
    assert st.S[4].tolist() == st.S[5].tolist() == [M32, 0]


@pytest.mark.parametrize(
    ("how", "wanted"),
    [("and", lambda s, e: s & e), ("or", lambda s, e: s | e), ("xor", lambda s, e: s ^ e),
     ("and_not1", lambda s, e: s & ~e), ("or_not1", lambda s, e: s | ~e),
     ("and_not0", lambda s, e: ~s & e), ("nand", lambda s, e: ~(s & e))],
)  # fmt: skip
def test_saveexec(how: str, wanted: Callable[[int, int], int]) -> None:
    st = fresh()
    st.S[EXEC][...], st.S[8][...] = 0x0FF0F00F, 0x00FFFF01
    run(st, f"s_{how}_saveexec_b32 s2, s8")
    assert int(st.S[2][0]) == 0x0FF0F00F
    assert int(st.S[EXEC][0]) == wanted(0x00FFFF01, 0x0FF0F00F) & M32
    assert st.scc[0] == bool(int(st.S[EXEC][0]))


def test_saveexec_where_the_mask_is_its_own_destination() -> None:
    st = fresh(generation=GFX9)
    st.S[8][...], st.S[9][...] = 0xF, 0xF0
    run(st, "s_and_saveexec_b64 s[8:9], s[8:9]", GFX9)
    assert (int(st.S[8][0]), int(st.S[9][0])) == (M32, M32)
    assert (int(st.S[EXEC][0]), int(st.S[EXEC + 1][0])) == (0xF, 0xF0)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "max", "min", "rndne", "trunc", "floor"])
def test_scalar_floats(name: str) -> None:
    row = TABLE.scalar[f"s_{name}_f32"]
    values = floats(32, len(row.reads), random.Random(name))[:WAVES]
    st = fresh(waves=len(values))
    for n in range(len(row.reads)):
        scalars(st, 8 + n, [value[n] for value in values], 32)
    run(st, f"s_{name}_f32 s2, {', '.join(f's{8 + n}' for n in range(len(row.reads)))}")
    for value, got in zip(values, st.S[2], strict=True):
        wanted = pack(OPERATIONS[name](*(unpack(v, 32) for v in value)), 32)
        assert same(int(got), wanted, 32), [hex(v) for v in value]
