"""One line of a record: JSON, a line number, and a checksum chained over the lines before it.

    {"event":"loop.loss","data":{"values":[0.5]},"n":7,"crc":"1f0e9a3c"}

`crc` is the CRC-32 of the bytes before `,"crc":`, started from the checksum of the line before (0
for the first). Number and chain together tell apart a line that was changed, removed, or moved, and
a file that was cut. This finds accidents and careless edits; it is no signature: who wants to forge
a record can compute the checksums again.

JSON has no NaN and no infinity: they are written `{"$float":"nan"}`, `"inf"`, `"-inf"`, and come
back as floats. Text is ASCII with escapes, so that lone
surrogates from undecodable file names come back as they were.

History of the schema
1: the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import Any
from zlib import crc32

SCHEMA = 1
LONGEST = 16 * 2**20
"""Bytes in a line; the writer leaves out what is longer, the reader takes it for damage."""

_TAIL = re.compile(rb',"n":([0-9]{1,12}),"crc":"([0-9a-f]{8})"\}')
_TAIL_BYTES = len(b',"n":123456789012,"crc":"01234567"}')
_DEPTH = 40
_MAX_BITS = 4096  # Python refuses to turn much longer integers into digits, and to read them


def _special(value: float) -> dict[str, str]:
    return {"$float": "nan" if value != value else "inf" if value > 0 else "-inf"}


def _plain(value: Any) -> Any:
    """What stands for an object that JSON does not know. Runs no code of the user's classes."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=repr)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, date):
        return value.isoformat()
    kind = type(value)
    if kind.__module__ == "numpy":
        return value.tolist()
    if kind.__module__ == "torch" and kind.__name__ in ("dtype", "device", "Size"):
        return str(value)
    if isinstance(value, (list, tuple)) or kind.__name__ in ("deque", "dict_keys", "dict_values"):
        return list(value)
    return f"<{kind.__module__}.{kind.__qualname__}>"  # repr could read a tensor, or anything else


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain).encode
_decode = json.JSONDecoder().decode


def encode(value: Any) -> str:
    """JSON text of any value. Never raises an Exception."""
    try:
        return _encode(value)
    except Exception:  # NaN, a key that is no string, a cycle, too deep, an integer too long
        return _encode(clean(value))


def clean(value: Any, above: tuple[int, ...] = ()) -> Any:
    """The value in JSON's own types; the slow way, for what the encoder refuses."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if int.bit_length(value) <= _MAX_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if value - value == 0 else _special(value)
    if id(value) in above:
        return "<cycle>"
    if len(above) == _DEPTH:
        return "<too deep>"
    within = (*above, id(value))
    try:
        if isinstance(value, dict):
            return {_key(key, within): clean(part, within) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [clean(part, within) for part in value]
        return clean(_plain(value), within)
    except Exception:
        return "<unreadable>"


def _key(key: Any, above: tuple[int, ...]) -> str:
    if isinstance(key, str):
        return key
    plain = clean(key, above)
    return _encode(plain) if not isinstance(plain, str) else plain


def _restore(data: dict[str, Any]) -> Any:
    special = len(data) == 1 and data.get("$float") in ("nan", "inf", "-inf")
    return float(data["$float"]) if special else data


_decode_floats = json.JSONDecoder(object_hook=_restore).decode


def decode(text: str) -> Any:
    """The value of a JSON text written by `encode`. Raises ValueError."""
    try:
        return _decode_floats(text) if '"$float"' in text else _decode(text)
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None


def seal(payload: str, number: int, chain: int) -> tuple[bytes, int]:
    """(the line with its number and checksum, the checksum). `payload` is a JSON object's text."""
    body = f'{payload[:-1]},"n":{number}'.encode("ascii")
    crc = crc32(body, chain)
    return b'%b,"crc":"%08x"}\n' % (body, crc), crc


@dataclass(frozen=True)
class Line:
    """A line as it lies in the file, with what it says of itself."""

    text: str
    number: int
    crc: int
    body: bytes

    def follows(self, chain: int) -> bool:
        """True when the checksum is right after a line with checksum `chain`."""
        return crc32(self.body, chain) == self.crc


def unseal(raw: bytes) -> Line | None:
    """The line, or None when it has not the form of one."""
    raw = raw.removesuffix(b"\n")
    tail = _TAIL.search(raw, max(0, len(raw) - _TAIL_BYTES))
    if tail is None or tail.end() != len(raw):
        return None
    try:
        text = (raw[: tail.start()] + b"}").decode("ascii")
    except UnicodeDecodeError:
        return None
    body = raw[: len(raw) - len(b',"crc":"01234567"}')]
    return Line(text, int(tail[1]), int(tail[2], 16), body)
