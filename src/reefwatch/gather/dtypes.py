"""From torch's dtypes to the names of the record."""

from __future__ import annotations

from typing import Any

_SHORT = {
    "float64": "f64",
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e4m3fnuz": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "bool",
    "complex64": "c64",
    "complex128": "c128",
}


def short(dtype: Any) -> str:
    """`bf16` for `torch.bfloat16`; `other` for one that has no name here."""
    return _SHORT.get(str(dtype).removeprefix("torch."), "other")
