"""Vector integer instructions against Python integers, on corners and at random."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from reefwatch.isa import blocks  # noqa: F401 - declares the instructions
from reefwatch.isa.emit import TYPES
from reefwatch.isa.ops import valu_int  # noqa: F401
from reefwatch.isa.table import TABLE, Row
from tests.isa.one import fresh, get, mask_bits, put, run

M16, M32, M64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1


def signed(x: int, bits: int = 32) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def clamp(x: int, low: int, high: int) -> int:
    return max(low, min(high, x))


def field(x: int, at: int, width: int) -> int:
    return x >> (at & 31) & (1 << (width & 31)) - 1


def signed_field(x: int, at: int, width: int) -> int:
    raw, width = field(x, at, width), width & 31
    return raw - (1 << width) if width and raw >> (width - 1) & 1 else raw


def permute(a: int, b: int, select: int) -> int:
    both, out = a << 32 | b, 0
    for n in range(4):
        code = select >> 8 * n & 255
        if code < 8:
            byte = both >> 8 * code & 255
        elif code < 12:
            byte = 255 if both >> (16 * (code - 8) + 15) & 1 else 0
        else:
            byte = 0 if code == 12 else 255
        out |= byte << 8 * n
    return out


def dot(a: int, b: int, bits: Callable[[int], int]) -> int:
    return sum(bits(a >> s & 255) * bits(b >> s & 255) for s in (0, 8, 16, 24))


def s24(x: int) -> int:
    return signed(x & 0xFFFFFF, 24)


#: what each instruction gives, from raw operands; the result is cut to its width
REFERENCE: dict[str, Callable[..., int | tuple[int, int]]] = {
    "v_mov_b32": lambda a: a,
    "v_mov_b64": lambda a: a,
    "v_mov_b16": lambda a: a,
    "v_not_b32": lambda a: ~a,
    "v_not_b16": lambda a: ~a,
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_and_b16": lambda a, b: a & b,
    "v_or_b16": lambda a, b: a | b,
    "v_xor_b16": lambda a, b: a ^ b,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
    "v_bfe_u32": field,
    "v_bfe_i32": signed_field,
    "v_bfrev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "v_bcnt_u32_b32": lambda a, b: a.bit_count() + b,
    "v_clz_i32_u32": lambda a: 32 - a.bit_length() if a else -1,
    "v_cls_i32": lambda a: -1 if a in (0, M32) else 32 - (a ^ (M32 if a >> 31 else 0)).bit_length(),
    "v_ctz_i32_b32": lambda a: (a & -a).bit_length() - 1 if a else -1,
    "v_perm_b32": permute,
    "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3),
    "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32": lambda a, b: signed(b) >> (a & 31),
    "v_lshlrev_b16": lambda a, b: b << (a & 15),
    "v_lshrrev_b16": lambda a, b: b >> (a & 15),
    "v_ashrrev_i16": lambda a, b: signed(b, 16) >> (a & 15),
    "v_lshlrev_b64": lambda a, b: b << (a & 63),
    "v_lshrrev_b64": lambda a, b: b >> (a & 63),
    "v_ashrrev_i64": lambda a, b: signed(b, 64) >> (a & 63),
    "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b & M32) << (c & 31),
    "v_lshl_add_u64": lambda a, b, c: (a << (b & 7)) + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_add_nc_u32": lambda a, b: a + b,
    "v_sub_nc_u32": lambda a, b: a - b,
    "v_subrev_nc_u32": lambda a, b: b - a,
    "v_add_nc_u32+clamp": lambda a, b: clamp(a + b, 0, M32),
    "v_sub_nc_u32+clamp": lambda a, b: clamp(a - b, 0, M32),
    "v_subrev_nc_u32+clamp": lambda a, b: clamp(b - a, 0, M32),
    "v_add_nc_i32": lambda a, b: a + b,
    "v_sub_nc_i32": lambda a, b: a - b,
    "v_add_nc_i32+clamp": lambda a, b: clamp(signed(a) + signed(b), -(2**31), 2**31 - 1),
    "v_sub_nc_i32+clamp": lambda a, b: clamp(signed(a) - signed(b), -(2**31), 2**31 - 1),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_add_nc_u64": lambda a, b: a + b,
    "v_sub_nc_u64": lambda a, b: a - b,
    "v_add_nc_u16": lambda a, b: a + b,
    "v_sub_nc_u16": lambda a, b: a - b,
    "v_subrev_nc_u16": lambda a, b: b - a,
    "v_add_nc_i16": lambda a, b: a + b,
    "v_sub_nc_i16": lambda a, b: a - b,
    "v_add_co_u32": lambda a, b: (a + b, a + b > M32),
    "v_sub_co_u32": lambda a, b: (a - b, a < b),
    "v_subrev_co_u32": lambda a, b: (b - a, b < a),
    "v_add_co_ci_u32": lambda a, b, c: (a + b + c, a + b + c > M32),
    "v_sub_co_ci_u32": lambda a, b, c: (a - b - c, a - b - c < 0),
    "v_subrev_co_ci_u32": lambda a, b, c: (b - a - c, b - a - c < 0),
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": lambda a, b: a * b >> 32,
    "v_mul_hi_i32": lambda a, b: signed(a) * signed(b) >> 32,
    "v_mul_lo_u16": lambda a, b: a * b,
    "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "v_mul_i32_i24": lambda a, b: s24(a) * s24(b),
    "v_mul_hi_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32,
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_mad_i32_i24": lambda a, b, c: s24(a) * s24(b) + c,
    "v_mad_u16": lambda a, b, c: a * b + c,
    "v_mad_i16": lambda a, b, c: a * b + c,
    "v_mad_u32_u16": lambda a, b, c: a * b + c,
    "v_mad_i32_i16": lambda a, b, c: signed(a, 16) * signed(b, 16) + c,
    "v_mad_u64_u32": lambda a, b, c: (a * b + c, a * b + c > M64),
    "v_mad_i64_i32": lambda a, b, c: (
        signed(a) * signed(b) + signed(c, 64),
        not -(2**63) <= signed(a) * signed(b) + signed(c, 64) < 2**63,
    ),
    "v_max_i32": lambda a, b: max(signed(a), signed(b)),
    "v_min_i32": lambda a, b: min(signed(a), signed(b)),
    "v_max_u32": max,
    "v_min_u32": min,
    "v_max_i16": lambda a, b: max(signed(a, 16), signed(b, 16)),
    "v_min_i16": lambda a, b: min(signed(a, 16), signed(b, 16)),
    "v_max_u16": max,
    "v_min_u16": min,
    "v_max3_i32": lambda a, b, c: max(map(signed, (a, b, c))),
    "v_min3_i32": lambda a, b, c: min(map(signed, (a, b, c))),
    "v_max3_u32": max,
    "v_min3_u32": min,
    "v_med3_i32": lambda a, b, c: sorted(map(signed, (a, b, c)))[1],
    "v_med3_u32": lambda a, b, c: sorted((a, b, c))[1],
    "v_maxmin_i32": lambda a, b, c: min(max(signed(a), signed(b)), signed(c)),
    "v_minmax_i32": lambda a, b, c: max(min(signed(a), signed(b)), signed(c)),
    "v_maxmin_u32": lambda a, b, c: min(max(a, b), c),
    "v_minmax_u32": lambda a, b, c: max(min(a, b), c),
    "v_sad_u32": lambda a, b, c: abs(a - b) + c,
    "v_cndmask_b32": lambda a, b, c: b if c else a,
    "v_cndmask_b16": lambda a, b, c: b if c else a,
    "v_pack_b32_f16": lambda a, b: a | b << 16,
    "v_dot4_u32_u8": lambda a, b, c: dot(a, b, lambda x: x) + c,
    "v_dot4_i32_i8": lambda a, b, c: dot(a, b, lambda x: signed(x, 8)) + c,
}

CORNERS = {
    16: [0, 1, 2, 15, 16, 255, 0x7FFF, 0x8000, 0x8001, M16],
    32: [0, 1, 2, 31, 32, 33, 255, 0xFFFF, 0x7FFFFF, 0x800000, 0x7FFFFFFF, 0x80000000, M32],
    64: [0, 1, 63, M32, M32 + 1, 1 << 63, (1 << 63) - 1, M64],
    1: [0, 1],
}
LANES = 32 * 40


def widths(row: Row) -> list[int]:
    return [1 if k == "mask" else 32 if k == "h32" else TYPES[k][2] for k in row.reads]


def samples(row: Row, rng: random.Random) -> list[tuple[int, ...]]:
    """Corners against corners, as many as fit, then random bits and random small numbers."""
    sizes = widths(row)
    corners = list(itertools.product(*(CORNERS[size] for size in sizes)))
    rng.shuffle(corners)
    out = corners[: LANES // 2]
    while len(out) < LANES:
        out.append(tuple(rng.getrandbits(size) >> rng.randrange(size) for size in sizes))
    return out


def instruction(name: str, row: Row) -> str:
    """The text, with v8, v10, v12 as sources, v2 and s[20] as results, s[24] as a mask source."""
    targets = {"mask": "s20"}
    parts = [targets.get(k) or ("v[2:3]" if TYPES[k][2] == 64 else "v2") for k in row.writes]
    for n, kind in enumerate(row.reads):
        wide = kind != "mask" and kind != "h32" and TYPES[kind][2] == 64
        at = 8 + 2 * n
        parts.append("s24" if kind == "mask" else f"v[{at}:{at + 1}]" if wide else f"v{at}")
    mnemonic, _, clamped = name.partition("+")
    return f"{mnemonic} {', '.join(parts)}{' clamp' if clamped else ''}"


def declared() -> dict[str, Row]:
    return {name: TABLE.lane[name] for name in REFERENCE}


@pytest.mark.parametrize("name", REFERENCE)
def test_agrees_with_python_integers(name: str) -> None:
    row = TABLE.lane[name]
    values = samples(row, random.Random(name))
    st = fresh(waves=LANES // 32)
    for n, size in enumerate(widths(row)):
        column = [value[n] for value in values]
        if size == 1:
            for wave in range(st.waves):
                bits = column[32 * wave : 32 * wave + 32]
                st.S[24][wave] = sum(bit << lane for lane, bit in enumerate(bits))
        else:
            put(st, 8 + 2 * n, column, max(size, 32))
    run(st, instruction(name, row))
    size = TYPES[row.writes[0]][2]
    results = get(st, 2, size)
    carries = mask_bits(st, 20) if len(row.writes) > 1 else [0] * LANES
    for value, result, carry in zip(values, results, carries, strict=True):
        expected = REFERENCE[name](*value)
        whole, flag = expected if isinstance(expected, tuple) else (expected, 0)
        assert result == whole & (1 << size) - 1, (name, [hex(v) for v in value])
        assert carry == flag, (name, [hex(v) for v in value])


def test_shifts_of_all_16_bit_values() -> None:
    st = fresh(waves=2048)
    everything = list(range(65536))
    for by in (0, 1, 7, 15, 16, 31):
        put(st, 8, everything)
        run(
            st, f"v_lshlrev_b16 v2, {by}, v8\nv_ashrrev_i16 v3, {by}, v8\nv_mul_lo_u16 v4, v8, {by}"
        )
        assert get(st, 2, 16) == [x << (by & 15) & M16 for x in everything]
        assert get(st, 3, 16) == [signed(x, 16) >> (by & 15) & M16 for x in everything]
        assert get(st, 4, 16) == [x * by & M16 for x in everything]


def test_a_16_bit_result_keeps_the_other_half_on_gfx11() -> None:
    st = fresh()
    put(st, 2, [0xABCD0000] * 32)
    put(st, 8, [5] * 32)
    run(st, "v_add_nc_u16 v2, v8, v8")
    assert get(st, 2) == [0xABCD000A] * 32
