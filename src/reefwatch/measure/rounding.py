"""How much rounding may change a result. Arrays are numpy or torch; `xp` is their namespace."""

from __future__ import annotations

import math
from typing import Any

UNIT = {
    "f64": 2.0**-53,
    "f32": 2.0**-24,
    "tf32": 2.0**-11,
    "bf16": 2.0**-8,
    "f16": 2.0**-11,
    "f8e4m3": 2.0**-4,
    "f8e5m2": 2.0**-3,
}
"""Unit roundoff u by dtype: round to nearest changes x by at most u|x| (IEEE 754-2019, 4.3.1;
bfloat16 and the 8-bit formats by their 8, 4 and 3 bits of significand)."""

SMALLEST = {
    "f64": 2.0**-1074,
    "f32": 2.0**-149,
    "tf32": 2.0**-149,
    "bf16": 2.0**-133,
    "f16": 2.0**-24,
    "f8e4m3": 2.0**-9,
    "f8e5m2": 2.0**-16,
}
"""Smallest positive subnormal."""

NORMAL = {
    "f64": 2.0**-1022,
    "f32": 2.0**-126,
    "tf32": 2.0**-126,
    "bf16": 2.0**-126,
    "f16": 2.0**-14,
    "f8e4m3": 2.0**-6,
    "f8e5m2": 2.0**-14,
}
"""Smallest positive normal number. Devices may flush what is below it to zero."""

LARGEST = {
    "f64": 1.7976931348623157e308,
    "f32": 3.4028234663852886e38,
    "tf32": 3.4028234663852886e38,
    "bf16": 3.3895313892515355e38,
    "f16": 65504.0,
    "f8e4m3": 448.0,
    "f8e5m2": 57344.0,
}
"""Largest finite number."""


def last_place(xp: Any, truth: Any, dtype: str) -> Any:
    """The most that rounding to nearest may change each element of `truth`, in its unit."""
    return xp.abs(truth) * UNIT[dtype] + NORMAL[dtype] * 2 * UNIT[dtype]


def growth(length: int, dtype: str, sure: float) -> float:
    """How far a sum of `length` products in `dtype` may be off, relative to the sum of |products|.

    The lesser of the worst case, n u / (1 - n u) (Higham, Accuracy and Stability of Numerical
    Algorithms, 2nd ed., section 3.1), and the probabilistic bound exp(s sqrt(n) u + ...) - 1 with
    s = `sure` standard deviations (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4).
    """
    unit = UNIT[dtype]
    worst = length * unit / (1 - length * unit) if length * unit < 1 else math.inf
    power = sure * math.sqrt(length) * unit + length * unit * unit / (1 - unit)
    return min(worst, math.expm1(min(power, 700.0)))


def product_bound(
    xp: Any, truth: Any, absolute: Any, length: int, *, accumulate: str, result: str, sure: float
) -> Any:
    """How far each element of a matrix product or convolution may be off.

    `absolute` is the same product of the absolute values, `length` the number of products summed,
    `accumulate` the dtype of the sum, `result` that of the output. Element by element.
    """
    summed = absolute * growth(length + 1, accumulate, sure)
    return summed + last_place(xp, xp.abs(truth) + summed, result)
