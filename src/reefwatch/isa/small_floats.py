"""8-bit floats: OCP e4m3 and e5m2 (gfx12), and their variants without negative zero (gfx942)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

_SHAPES = {"fp8": (4, 3), "bf8": (5, 2)}


@lru_cache
def decode8(kind: str, fnuz: bool) -> Any:
    """The f32 value of each of the 256 codes."""
    return np.array([_decode(code, *_SHAPES[kind], fnuz) for code in range(256)], np.float32)


def _decode(code: int, exponent_bits: int, mantissa_bits: int, fnuz: bool) -> float:
    sign = -1.0 if code & 0x80 else 1.0
    exponent = code >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = code & (1 << mantissa_bits) - 1
    bias = (1 << exponent_bits - 1) - (0 if fnuz else 1)
    top = exponent == (1 << exponent_bits) - 1
    if fnuz and code == 0x80:
        return float("nan")
    if not fnuz and top and exponent_bits == 5:
        return sign * float("inf") if mantissa == 0 else float("nan")
    if not fnuz and top and mantissa == (1 << mantissa_bits) - 1:
        return float("nan")
    fraction = mantissa / (1 << mantissa_bits)
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)
