"""Data that tells where it comes from, and sums that are exact in any order.

Every element is a 64-bit hash of (case, source rank, slot, index), cut to what the dtype carries.
Movement must return the same bits. Addends are integers so small that every partial sum has a
place in the dtype, so that the order of a reduction cannot change its result.
"""

from __future__ import annotations

from typing import Any

import torch

_M1, _M2 = 0x9E3779B97F4A7C15 - (1 << 64), 0xBF58476D1CE4E5B9 - (1 << 64)
_STEP = 0x632BE59BD9B4E019 % (1 << 62)
_FLOATS = {
    "float64": 53,
    "float32": 24,
    "float16": 11,
    "bfloat16": 8,
    "float8_e4m3fn": 4,
    "float8_e5m2": 3,
    "complex64": 24,
    "complex128": 53,
}
_INTEGERS = {"int8": 7, "uint8": 8, "int16": 15, "int32": 31, "int64": 63}
DTYPES = (*_FLOATS, *_INTEGERS, "bool")
"""Names of the dtypes that collectives are tried with."""


def dtype_of(name: str) -> Any:
    """The torch dtype of that name; None where this torch has none."""
    return getattr(torch, name, None)


def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def bits(dtype: Any) -> int:
    """Bits of the significand, or of the positive numbers of an integer type."""
    name = name_of(dtype)
    return _FLOATS.get(name) or _INTEGERS.get(name) or 1


def hashes(n: int, *key: int, device: Any = "cpu") -> Any:
    """`n` int64 from 0 on: a splitmix64 of the index, once per part of the key.

    Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    x = torch.arange(n, dtype=torch.int64, device=device)
    for part in key:
        x = (x + (int(part) + 1) * _STEP % (1 << 62)) * _M1
        x = x ^ ((x >> 30) & ((1 << 34) - 1))
        x = x * _M2
        x = x ^ ((x >> 27) & ((1 << 37) - 1))
    return (x ^ ((x >> 31) & ((1 << 33) - 1))) & ((1 << 63) - 1)


def cast(values: Any, dtype: Any) -> Any:
    """Integers in a dtype; a complex number has another imaginary part than real."""
    if dtype.is_complex:
        real = values.to(torch.float64)
        return torch.complex(real, -real - 1).to(dtype)
    if dtype.is_floating_point and dtype.itemsize == 1:
        return values.to(torch.float32).to(dtype)
    return values.to(dtype)


def payload(n: int, dtype: Any, *key: int, device: Any = "cpu") -> Any:
    """Any values that the dtype carries without rounding."""
    drawn = hashes(n, *key, device=device)
    if dtype == torch.bool:
        return (drawn & 1).bool()
    return cast(drawn & ((1 << min(bits(dtype), 62)) - 1), dtype)


def addend(n: int, dtype: Any, rank: int, world: int, *key: int, device: Any = "cpu") -> Any:
    """What one rank adds: integers, positive or negative, whose sums are exact in any order.

    Where the dtype is too narrow for so many ranks, one rank by index adds and the others add 0.
    """
    drawn = hashes(n, *key, rank, device=device)
    if dtype == torch.bool:
        return (drawn & 1).bool()
    most = ((1 << min(bits(dtype), 40)) - 1) // world
    values = drawn % (max(most, 1) + 1)
    if most == 0:
        values = drawn & ((1 << bits(dtype)) - 1)
        values = torch.where(hashes(n, *key, 79, device=device) % world == rank, values, 0)
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.where((drawn >> 50) & 1 > 0, -values, values)
    return cast(values, dtype)


def factor(n: int, dtype: Any, rank: int, world: int, *key: int, device: Any = "cpu") -> Any:
    """What one rank multiplies by: one rank per index has 2 or -2, the others 1 or -1."""
    own = hashes(n, *key, 77, device=device) % world == rank
    drawn = hashes(n, *key, rank, 78, device=device)
    if dtype == torch.bool:
        return drawn % 4 != 0
    values = torch.where(own, torch.full_like(drawn, 2), torch.ones_like(drawn))
    if dtype != torch.uint8:
        values = torch.where(drawn & 1 > 0, -values, values)
    if dtype.is_complex:
        return values.to(torch.float64).to(dtype)
    return cast(values, dtype)


def operand(op: str, n: int, dtype: Any, rank: int, world: int, *key: int, device: Any) -> Any:
    """What one rank gives to a reduction."""
    if op == "PRODUCT":
        return factor(n, dtype, rank, world, *key, device=device)
    if op in ("BAND", "BOR", "BXOR", "MIN", "MAX"):
        return payload(n, dtype, *key, rank, device=device)
    return addend(n, dtype, rank, world, *key, device=device)


def reduced(op: str, parts: list[Any]) -> Any:
    """The exact result of a reduction, in the dtype of the parts; None where none is defined."""
    dtype = parts[0].dtype
    if dtype == torch.bool:
        stack = torch.stack(parts)
        either = {"SUM": "any", "MAX": "any", "BOR": "any", "MIN": "all", "PRODUCT": "all"}
        if op in ("BXOR", "AVG", "PREMUL_SUM"):
            return (stack.sum(0) % 2).bool() if op == "BXOR" else None
        return getattr(stack, either.get(op, "all"))(0)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    exact = wide if dtype.is_complex or dtype.is_floating_point else dtype
    if op in ("AVG", "PREMUL_SUM") and exact is dtype and dtype != wide:
        return None  # of integers: what the mean is rounded to is documented nowhere
    if dtype.is_complex and op not in ("SUM", "AVG", "PREMUL_SUM", "PRODUCT"):
        return None  # complex numbers have no order and no single bits
    terms = [_widened(part, exact) for part in parts]
    total = terms[0].clone()
    for term in terms[1:]:
        total = _STEPS[op](total, term)
    if op == "AVG":
        total = total / len(parts)
    if op == "PREMUL_SUM":
        total = total * 0.5
    if dtype.is_floating_point and dtype.itemsize == 1:
        return total.to(torch.float32).to(dtype)
    return total.to(dtype)


def _widened(part: Any, exact: Any) -> Any:
    return (
        part.to(torch.float32).to(exact)
        if part.dtype.itemsize == 1 and part.dtype != exact
        else part.to(exact)
    )


_STEPS = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PREMUL_SUM": torch.add,
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}
OPS = tuple(_STEPS)
