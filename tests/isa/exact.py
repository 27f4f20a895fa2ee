"""Exact arithmetic on bit patterns, by fractions: the second opinion for floating point."""

from __future__ import annotations

import math
from fractions import Fraction

#: bits -> (exponent bits, mantissa bits)
FORMATS = {16: (5, 10), 32: (8, 23), 64: (11, 52)}
NAN = "nan"


def unpack(bits: int, width: int) -> Fraction | float | str:
    """The value of a pattern: a Fraction, an infinity, or "nan"; zero keeps no sign."""
    exponent_bits, mantissa_bits = FORMATS[width]
    sign = -1 if bits >> (width - 1) & 1 else 1
    exponent = bits >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = bits & (1 << mantissa_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    if exponent == (1 << exponent_bits) - 1:
        return NAN if mantissa else sign * math.inf
    if exponent == 0:
        return Fraction(sign * mantissa) * Fraction(2) ** (1 - bias - mantissa_bits)
    whole = mantissa | 1 << mantissa_bits
    return Fraction(sign * whole) * Fraction(2) ** (exponent - bias - mantissa_bits)


def pack(value: Fraction | float | str, width: int, minus_zero: bool = False) -> int | str:
    """The pattern nearest to a value, to even; "nan" for any NaN."""
    exponent_bits, mantissa_bits = FORMATS[width]
    top = ((1 << exponent_bits) - 1) << mantissa_bits
    if value == NAN:
        return NAN
    sign = 1 << (width - 1)
    if isinstance(value, float) and math.isinf(value):
        return top | (sign if value < 0 else 0)
    exact = abs(Fraction(value))  # type: ignore[arg-type]
    minus = sign if value < 0 or (value == 0 and minus_zero) else 0  # type: ignore[operator]
    if exact == 0:
        return minus
    bias = (1 << exponent_bits - 1) - 1
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= exact < Fraction(2) ** exponent
    exponent = max(exponent, 1 - bias)
    scaled = exact / Fraction(2) ** (exponent - mantissa_bits)
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)
    if whole < 1 << mantissa_bits:  # denormal
        return minus | whole
    pattern = ((exponent + bias) << mantissa_bits) + (whole - (1 << mantissa_bits))
    return minus | min(pattern, top)


def is_nan(bits: int, width: int) -> bool:
    return unpack(bits, width) == NAN


def add(a, b, width: int):
    """a + b as a value; infinities as IEEE has them."""
    x, y = unpack(a, width), unpack(b, width)
    if NAN in (x, y):
        return NAN
    if isinstance(x, float) or isinstance(y, float):
        if isinstance(x, float) and isinstance(y, float) and x != y:
            return NAN
        return x if isinstance(x, float) else y
    return x + y


def times(x, y):
    """The product of two values."""
    if NAN in (x, y):
        return NAN
    if isinstance(x, float) or isinstance(y, float):
        if x == 0 or y == 0:
            return NAN
        return math.inf if (x > 0) == (y > 0) else -math.inf
    return x * y


def fma(a: int, b: int, c: int, width: int):
    """a * b + c as a value."""
    product, z = times(unpack(a, width), unpack(b, width)), unpack(c, width)
    if NAN in (product, z):
        return NAN
    if isinstance(product, float) or isinstance(z, float):
        if isinstance(product, float) and isinstance(z, float) and product != z:
            return NAN
        return product if isinstance(product, float) else z
    return product + z
