"""The arithmetic that instruction expressions use beyond numpy's operators.

Every function takes and gives numpy arrays of one shape (or what broadcasts to it) and works on
all lanes at once. Names follow the type they work on. Rounding is to nearest even throughout:
a program that asks for another mode is refused before it runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
f16, f32, f64 = np.float16, np.float32, np.float64
Array = Any  # numpy arrays of the type that the name says, or scalars that broadcast to them

_LOW_29 = u64((1 << 29) - 1)
_TIE_29 = u64(1 << 28)


# ---- joining and parting registers
def pair(low: Array, high: Array) -> Array:
    """64-bit values from two 32-bit registers."""
    low, high = np.broadcast_arrays(low, high)
    both = np.empty((*low.shape, 2), u32)
    both[..., 0] = low
    both[..., 1] = high
    return both.view(u64)[..., 0]


def low_word(x: Array) -> Array:
    """The low 32 bits of 64-bit values."""
    return np.ascontiguousarray(x).view(u32)[..., 0::2]


def high_word(x: Array) -> Array:
    """The high 32 bits of 64-bit values."""
    return np.ascontiguousarray(x).view(u32)[..., 1::2]


def as_type(x: Array, kind: Any) -> Array:
    """The same bits as another type of the same width."""
    return np.ascontiguousarray(x).view(kind)


def half(x: Array, high: int, kind: Any) -> Array:
    """The low or high 16 bits of 32-bit values."""
    return as_type((x >> u32(16) if high else x).astype(u16), kind)


def lanes32(mask: Array) -> Array:
    """Lane masks of 32 lanes, (waves,) -> bool (waves, 32)."""
    bits = np.ascontiguousarray(mask).view(u8).reshape(-1, 4)
    return np.unpackbits(bits, axis=1, bitorder="little").view(bool)


def lanes64(low: Array, high: Array) -> Array:
    """Lane masks of 64 lanes, two (waves,) -> bool (waves, 64)."""
    bits = pair(low, high).view(u8).reshape(-1, 8)
    return np.unpackbits(bits, axis=1, bitorder="little").view(bool)


def bits32(lanes: Array) -> Array:
    """Bool (waves, 32) -> lane masks (waves,)."""
    return np.packbits(lanes, axis=1, bitorder="little").view(u32)[:, 0]


def bits64(lanes: Array) -> Array:
    """Bool (waves, 64) -> lane masks (waves, 2) as low and high words."""
    return np.packbits(lanes, axis=1, bitorder="little").view(u32)


# ---- integers
def shl(x: Array, by: Array) -> Array:
    """Shift left by the low bits of `by`, as many as the width needs."""
    return x << (np.asarray(by) & (x.itemsize * 8 - 1)).astype(x.dtype)


def shr(x: Array, by: Array) -> Array:
    """Shift right, filling as the type of `x` says."""
    return x >> (np.asarray(by) & (x.itemsize * 8 - 1)).astype(x.dtype)


def bfe_u32(x: Array, at: Array, width: Array) -> Array:
    """`width` (mod 32) bits of x from bit `at` (mod 32)."""
    width = np.asarray(width) & u32(31)
    return (x >> (at & u32(31))) & ((u32(1) << width) - u32(1))


def bfe_i32(x: Array, at: Array, width: Array) -> Array:
    """The same, sign-extended."""
    width = np.asarray(width) & u32(31)
    raw = bfe_u32(as_type(np.asarray(x), u32), at, width)
    sign = np.where(width > 0, u32(1) << ((width - u32(1)) & u32(31)), u32(0))
    return as_type((raw ^ sign) - sign, i32)


def perm(a: Array, b: Array, select: Array) -> Array:
    """Four bytes picked from {a, b}; 12 is zero, above it all ones, 8-11 a sign byte."""
    a, b, select = np.broadcast_arrays(a, b, select)
    source = pair(b, a).view(u8).reshape(*a.shape, 8)
    picks = np.ascontiguousarray(select).view(u8).reshape(*a.shape, 4)
    out = np.take_along_axis(source, np.minimum(picks, 7).astype(i64), axis=-1)
    if (picks > 7).any():
        sign = np.take_along_axis(source, ((picks.astype(i64) & 3) * 2 + 1), axis=-1)
        sign = np.where(sign >= 128, u8(255), u8(0))
        out = np.where(picks > 7, np.where(picks < 12, sign, u8(255)), out)
        out = np.where(picks == 12, u8(0), out)
    return np.ascontiguousarray(out).view(u32)[..., 0]


def count_ones(x: Array) -> Array:
    """How many bits are set, as u32."""
    bytes_ = np.ascontiguousarray(x).view(u8).reshape(*np.shape(x), -1)
    return np.unpackbits(bytes_, axis=-1).sum(axis=-1, dtype=u32)


def first_one_from_top(x: Array) -> Array:
    """Leading zeros, or all ones for zero, as u32."""
    size = x.itemsize * 8
    at = x.astype(np.longdouble)
    _, exponent = np.frexp(at)
    return np.where(x == 0, u32(0xFFFFFFFF), (size - exponent).astype(u32))


def first_sign_change(x: Array) -> Array:
    """How many bits from the top equal the sign bit, or all ones when every one does."""
    flipped = as_type(np.where(x < 0, ~x, x), u32)
    return np.where(flipped == 0, u32(0xFFFFFFFF), first_one_from_top(flipped))


def first_one_from_bottom(x: Array) -> Array:
    """Trailing zeros, or all ones for zero, as u32."""
    lowest = x & (~x + x.dtype.type(1))
    return np.where(x == 0, u32(0xFFFFFFFF), count_ones(lowest - x.dtype.type(1)))


def reverse_bits(x: Array) -> Array:
    """Bit 0 becomes the top bit."""
    bits = np.unpackbits(np.ascontiguousarray(x).view(u8).reshape(*x.shape, -1), axis=-1)
    packed = np.packbits(bits[..., ::-1], axis=-1, bitorder="big")
    return np.ascontiguousarray(packed[..., : x.itemsize]).view(x.dtype)[..., 0]


def saturate(x: Array, low: int, high: int, kind: Any) -> Array:
    """Wide integers limited to a range."""
    return np.clip(x, low, high).astype(kind)


def middle(a: Array, b: Array, c: Array) -> Array:
    """The middle of three integers."""
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def fmiddle(a: Array, b: Array, c: Array) -> Array:
    """The middle of three floats; with a NaN among them the smallest of the rest."""
    lowest = np.fmin(np.fmin(a, b), c)
    mid = np.fmax(np.fmin(a, b), np.fmin(np.fmax(a, b), c))
    return np.where(np.isnan(a) | np.isnan(b) | np.isnan(c), lowest, mid)


# ---- floats
def fma32(a: Array, b: Array, c: Array) -> Array:
    """A * b + c rounded once to f32.

    The product of two f32 is exact in f64. The sum is not: where its f64 rounding landed on a tie
    of f32, or near the denormals, the lost part is put back before rounding (round to odd).
    """
    product = np.multiply(a, b, dtype=f64)
    total = product + c
    bits = total.view(u64)
    if ((bits & _LOW_29) == _TIE_29).any() or _any_tiny(total):
        return _round_once(product, np.asarray(c, f64), total).astype(f32)
    return total.astype(f32)


def _any_tiny(x: Array) -> bool:
    small = np.abs(x) < 1.1754943508222875e-38
    return bool(small.any()) and bool((small & (x != 0)).any())


def _round_once(product: Array, c: Array, total: Array) -> Array:
    """`total` with its last bit made odd wherever product + c was not exact."""
    part = total - product
    lost = (product - (total - part)) + (c - part)
    inexact = (lost != 0) & np.isfinite(lost) & np.isfinite(total)
    bits = np.ascontiguousarray(total).view(i64)
    even = (bits & 1) == 0
    toward = np.where((lost > 0) == (total > 0), 1, -1)
    return np.where(inexact & even, bits + toward, bits).view(f64)


def fma16(a: Array, b: Array, c: Array) -> Array:
    """A * b + c rounded once to f16: exact in f64 up to the last rounding, then to odd."""
    product = np.multiply(a, b, dtype=f64)
    total = product + c
    return _round_once(product, np.broadcast_to(np.asarray(c, f64), total.shape), total).astype(f16)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """A * b + c rounded once to f64, by exact integers, lane after lane."""
    a, b, c = np.broadcast_arrays(np.asarray(a, f64), np.asarray(b, f64), np.asarray(c, f64))
    with np.errstate(all="ignore"):
        plain = a * b + c
    out = plain.ravel().copy()
    for at, (x, y, z) in enumerate(zip(a.ravel(), b.ravel(), c.ravel(), strict=True)):
        if math.isfinite(x) and math.isfinite(y) and math.isfinite(z):
            out[at] = _exact_fma(float(x), float(y), float(z), float(out[at]))
        elif math.isfinite(x) and math.isfinite(y):
            out[at] = z  # the product is finite, however large
    return out.reshape(a.shape)


def _exact_fma(x: float, y: float, z: float, plain: float) -> float:
    from fractions import Fraction

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return plain
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def flush(x: Array) -> Array:
    """Denormal f32 become zero of their sign."""
    return np.where(np.abs(x) < f32(1.1754943508222875e-38), np.copysign(f32(0), x), x)


def clip01(x: Array) -> Array:
    """The float clamp: into [0, 1], NaN to 0."""
    return np.fmin(np.fmax(x, x.dtype.type(0)), x.dtype.type(1))


def via64(function: Any, x: Array) -> Array:
    """A function of one f32 or f16, computed in f64 and rounded once more."""
    return function(np.asarray(x).astype(f64)).astype(x.dtype)


def rcp(x: Array) -> Array:
    """1 / x."""
    return via64(lambda y: 1.0 / y, x)


def rsq(x: Array) -> Array:
    """1 / sqrt(x)."""
    return via64(lambda y: 1.0 / np.sqrt(y), x)


def sine(turns: Array) -> Array:
    """The sine of a number of whole turns."""
    return via64(lambda y: np.sin(2 * np.pi * (y - np.floor(y))), turns)


def cosine(turns: Array) -> Array:
    """The cosine of a number of whole turns."""
    return via64(lambda y: np.cos(2 * np.pi * (y - np.floor(y))), turns)


def fract(x: Array) -> Array:
    """X - floor(x), kept below one."""
    below = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.where(np.isfinite(x), np.fmin(x - np.floor(x), below), x - np.floor(x))


def ldexp(x: Array, by: Array) -> Array:
    """X * 2**by."""
    return np.ldexp(x, np.clip(by, -4200, 4200).astype(i32))


def frexp_exponent(x: Array) -> Array:
    """The exponent of frexp; 0 for zero, infinity and NaN."""
    _, exponent = np.frexp(x)
    return np.where(np.isfinite(x), exponent, 0).astype(i32)


def frexp_mantissa(x: Array) -> Array:
    """The mantissa of frexp; infinity and NaN stay."""
    mantissa: Array = np.frexp(x)[0]
    out: Array = np.where(np.isfinite(x), mantissa, x)
    return out.astype(x.dtype)


def to_int(x: Array, low: int, high: int, kind: Any) -> Array:
    """Float to integer: toward zero, limited to the range, NaN to 0."""
    wide = np.nan_to_num(np.asarray(x).astype(f64), nan=0.0, posinf=high, neginf=low)
    return np.clip(np.trunc(wide), low, high).astype(i64).astype(kind)


def exponent_bits(x: Array) -> Array:
    """The biased exponent of f32, as i32."""
    return ((as_type(x, u32) >> u32(23)) & u32(255)).astype(i32)


def classes(x: Array, wanted: Array) -> Array:
    """Does x belong to one of the classes whose bits are set in `wanted`?

    Bits: 0 signalling NaN, 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal, 5 -0, 6 +0, 7 +denormal,
    8 +normal, 9 +inf.
    """
    x = np.asarray(x)
    kind, exponent, quiet = {
        2: (u16, 0x7C00, 0x0200),
        4: (u32, 0x7F800000, 0x00400000),
        8: (u64, 0x7FF0000000000000, 0x0008000000000000),
    }[x.itemsize]
    bits = as_type(x, kind)
    minus = np.signbit(x)
    power, fraction = bits & kind(exponent), bits & kind(quiet * 2 - 1)
    size = np.where(
        power == exponent,
        np.where(fraction == 0, 3, 4),
        np.where(power != 0, 2, np.where(fraction != 0, 1, 0)),
    )
    index = np.where(minus, 5 - size, 6 + size)
    index = np.where(size == 4, np.where((bits & kind(quiet)) != 0, 1, 0), index)
    return ((np.asarray(wanted, u32) >> index.astype(u32)) & u32(1)) != 0


# ---- f32 division helpers: scale, refine, fix up (RDNA3 ISA guide, V_DIV_*)
def div_scale(value: Array, bottom: Array, top: Array) -> tuple[Array, Array]:
    """`value` (bottom or top again) moved away from the edges, and whether to scale back later.

    Where the inverse and the quotient are both denormal the guide's text scales the denominator
    up, which overflows; down is what makes the sequence exact (tests/isa/test_valu_float.py).
    """
    value, bottom, top = np.broadcast_arrays(value, bottom, top)
    gap = exponent_bits(top) - exponent_bits(bottom)
    is_bottom = as_type(value, u32) == as_type(bottom, u32)
    is_top = as_type(value, u32) == as_type(top, u32)
    tiny = 1.1754943508222875e-38
    inverse = np.abs(1.0 / bottom.astype(f64))
    ratio = np.abs(top.astype(f64) / bottom.astype(f64))
    small_inverse, small_ratio = inverse < tiny, (ratio < tiny) & (ratio > 0)
    up, down = np.ldexp(value, 64), np.ldexp(value, -64)
    denormal = (exponent_bits(bottom) == 0) & (bottom != 0)
    cases = [
        ((bottom == 0) | (top == 0), np.full_like(value, np.nan), False),
        (gap >= 96, np.where(is_bottom, up, value), True),
        (denormal, up, False),
        (small_inverse & small_ratio, np.where(is_bottom, down, value), True),
        (small_inverse, down, False),
        (small_ratio, np.where(is_top, up, value), True),
        (exponent_bits(top) <= 23, up, False),
    ]
    out, later, open_ = value.copy(), np.zeros(value.shape, bool), np.ones(value.shape, bool)
    for when, result, flag in cases:
        hit = when & open_
        out = np.where(hit, result, out)
        later |= hit & flag
        open_ &= ~when
    return out.astype(f32), later


def div_fmas(a: Array, b: Array, c: Array, scaled: Array) -> Array:
    """fma, scaled back by 2**64 or 2**-64 (by the size of c) where div_scale said so.

    Rounded once, after scaling: otherwise quotients that are denormal could not be exact.
    """
    product = np.multiply(a, b, dtype=f64)
    total = product + c
    odd = _round_once(product, np.broadcast_to(np.asarray(c, f64), total.shape), total)
    back = np.where(exponent_bits(np.asarray(c)) > 127, 2.0**64, 2.0**-64)
    return np.where(scaled, odd * back, odd).astype(f32)


def div_fixup(quotient: Array, bottom: Array, top: Array) -> Array:
    """The quotient with the special cases of division put right."""
    quotient, bottom, top = np.broadcast_arrays(quotient, bottom, top)
    minus = np.signbit(bottom) ^ np.signbit(top)
    size = np.abs(quotient)
    gap = exponent_bits(top) - exponent_bits(bottom)
    size = np.where(np.isnan(size), f32(np.inf), size)
    size = np.where(gap < -150, f32(0), size)
    size = np.where(np.isinf(bottom) | (top == 0), f32(0), size)
    size = np.where((bottom == 0) | np.isinf(top), f32(np.inf), size)
    invalid = ((bottom == 0) & (top == 0)) | (np.isinf(bottom) & np.isinf(top))
    nan = invalid | np.isnan(bottom) | np.isnan(top)
    return np.where(nan, f32(np.nan), np.where(minus, -size, size)).astype(f32)


# ---- formats that numpy lacks
def bf16_to_f32(x: Array) -> Array:
    """bf16 bits (u16) to f32."""
    return (x.astype(u32) << u32(16)).view(f32)


def f32_to_bf16(x: Array) -> Array:
    """f32 to bf16 bits (u16), to nearest even; NaN stays NaN."""
    bits = as_type(x, u32)
    rounded = (bits + u32(0x7FFF) + ((bits >> u32(16)) & u32(1))) >> u32(16)
    return np.where(np.isnan(x), (bits >> u32(16)) | u32(0x40), rounded).astype(u16)


def f16_toward_zero(x: Array) -> Array:
    """f32 to f16, toward zero."""
    near = x.astype(f16)
    over = np.abs(near.astype(f32)) > np.abs(x)
    stepped = as_type(as_type(near, u16) - u16(1), f16)
    return np.where(over & np.isfinite(x), stepped, near)


def normalised(x: Array, limit: int, kind: Any) -> Array:
    """A float in [-1, 1] (or [0, 1]) as a normalised integer."""
    low = -limit if kind is i16 else 0
    return to_int(np.rint(np.nan_to_num(x.astype(f64)) * limit), low, limit, kind)


def pack16(low: Array, high: Array) -> Array:
    """Two 16-bit values in one register."""
    low, high = as_type(np.asarray(low), u16), as_type(np.asarray(high), u16)
    return low.astype(u32) | (high.astype(u32) << u32(16))


def dot_bytes(a: Array, b: Array, left: Any, right: Any) -> Array:
    """The sum of four products of bytes, as i64."""
    total = np.zeros((), i64)
    for shift in (0, 8, 16, 24):
        x = (np.asarray(a) >> u32(shift)).astype(u8).view(left).astype(i64)
        y = (np.asarray(b) >> u32(shift)).astype(u8).view(right).astype(i64)
        total = total + x * y
    return total


def carries_i64(product: Array, addend: Array) -> Array:
    """Does the signed 64-bit sum overflow?"""
    total = product + addend
    return ((product ^ total) & (addend ^ total)) < 0


def sext16(x: Array) -> Array:
    """The low 16 bits, sign-extended."""
    return np.asarray(x).astype(i32).astype(i16).astype(i32)


def scalar_field(x: Array, where: Array) -> Array:
    """A bit field: offset in bits 0-5 of `where`, width in bits 16-22; signed as x is."""
    size = x.itemsize * 8
    at = (where & u32(size - 1)).astype(i64)
    width = np.minimum(((where >> u32(16)) & u32(127)).astype(i64), size)
    out = [
        _field(int(value) & ((1 << size) - 1), int(start), int(count), size, x.dtype.kind == "i")
        for value, start, count in zip(x, at, width, strict=True)
    ]
    return np.array(out, x.dtype)


def _field(value: int, start: int, count: int, size: int, signed: bool) -> int:
    raw = (value >> start) & ((1 << count) - 1)
    count = min(count, size - start) if signed and start + count > size else count
    if signed and count and raw >> (count - 1) & 1:
        raw -= 1 << count
    return raw
