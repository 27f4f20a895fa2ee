"""Tensors beside a record: raw bytes in `rank<N>.tensors`, and an event each, where they lie.

The event is `tensor`, its id the name: `{"name", "dtype", "shape", "offset", "nbytes", "crc"}`. The
file is only appended to; the event is written after the bytes. Nothing is pickled, and torch is not
needed to read bf16.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from reefwatch.core.errors import UnreadableRecord
from reefwatch.core.record import Record
from reefwatch.store.scan import why

if TYPE_CHECKING:
    import numpy as np

_NUMPY = {
    "f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "i1",
    "u8": "u1", "bool": "?", "c64": "<c8", "c128": "<c16",
}  # fmt: skip


class Tensors:
    """The tensors of one rank's record. A `core.ports.ReferenceReader`."""

    def __init__(self, path: Path, record: Record) -> None:
        """`path` is the record's file, `rank<N>.jsonl`."""
        self.path = path.with_suffix(".tensors")
        self._where: dict[str, Mapping[str, Any]] = {
            event.id: event.data
            for event in record.events
            if event.kind == "tensor" and event.id is not None
        }

    def names(self) -> tuple[str, ...]:
        return tuple(self._where)

    def tensor(self, name: str) -> tuple[bytes, str, tuple[int, ...]] | None:
        """(bytes, dtype name, shape), None when no such tensor was kept.

        Raises UnreadableRecord when the bytes are missing or are not those that were written.
        """
        where = self._where.get(name)
        if where is None:
            return None
        try:
            offset, nbytes = int(where["offset"]), int(where["nbytes"])
            dtype, shape = str(where["dtype"]), tuple(int(size) for size in where["shape"])
            crc = int(where["crc"], 16)
        except (KeyError, TypeError, ValueError):
            raise UnreadableRecord(
                f"{self.path.name}: the entry of {name!r} is not whole"
            ) from None
        try:
            with open(self.path, "rb") as file:
                file.seek(offset)
                raw = file.read(nbytes)
        except (OSError, ValueError, OverflowError) as error:
            raise UnreadableRecord(f"{self.path}: {why(error)}") from None
        if len(raw) != nbytes:
            raise UnreadableRecord(f"{self.path}: cut short within {name!r}")
        if crc32(raw) != crc:
            raise UnreadableRecord(f"{self.path}: the bytes of {name!r} are not those written")
        return raw, dtype, shape

    def array(self, name: str) -> np.ndarray[Any, Any] | None:
        """The tensor as a numpy array, see `array`; None when no such tensor was kept."""
        found = self.tensor(name)
        return None if found is None else array(*found)


def array(raw: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Raw bytes as a numpy array; bf16 and f8 are widened to float32, which is exact.

    Raises ValueError for a dtype without a numpy counterpart, or bytes that do not fill the shape.
    """
    import numpy as np

    if dtype in _NUMPY:
        return np.frombuffer(raw, _NUMPY[dtype]).reshape(shape)
    if dtype == "bf16":  # the upper half of a float32
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    if dtype == "f8e5m2":  # the upper half of a float16
        halves = (np.frombuffer(raw, "u1").astype("<u2") << 8).view("<f2")
        return halves.astype("<f4").reshape(shape)
    if dtype == "f8e4m3":
        return _e4m3(np.frombuffer(raw, "u1")).reshape(shape)
    raise ValueError(f"no numpy counterpart of dtype {dtype!r}")


def _e4m3(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float8_e4m3fn: bias 7, no infinity, NaN is S.1111.111 (arXiv 2209.05433, table 1)."""
    import numpy as np

    sign = np.where(bits & 0x80, np.float32(-1), np.float32(1))
    exponent, mantissa = ((bits >> 3) & 15).astype("i4"), (bits & 7).astype("<f4")
    normal = np.ldexp(1 + mantissa / 8, exponent - 7)
    value = np.where(exponent == 0, np.ldexp(mantissa / 8, -6), normal).astype("<f4")
    value[(bits & 0x7F) == 0x7F] = np.nan
    return np.asarray(sign * value, dtype="<f4")
