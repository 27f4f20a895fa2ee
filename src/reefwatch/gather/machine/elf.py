"""What an ELF file asks of the loader: the libraries it needs, and whether its stack may execute.

Source: the ELF-64 specification, program headers and dynamic section. 64-bit little-endian only.
"""

from __future__ import annotations

import os
import struct
from typing import Any

_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_DT_NEEDED, _DT_STRTAB, _DT_SONAME = 1, 5, 14
_MOST = 1 << 20


def summary(path: str) -> dict[str, Any] | None:
    """`{"needed": [...], "soname": str, "execstack": bool}`; None for what is no such file."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
                return None
            return _read(file, head)
    except (OSError, struct.error, ValueError, OverflowError):
        return None


def _read(file: Any, head: bytes) -> dict[str, Any] | None:
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    if size < 56 or count > 512:
        return None
    raw = _part(file, table, size * count)
    segments = [struct.unpack_from("<IIQQQQQQ", raw, size * n) for n in range(len(raw) // size)]
    loads = [(s[3], s[2], s[5]) for s in segments if s[0] == _PT_LOAD]
    stack = [s[1] for s in segments if s[0] == _PT_GNU_STACK]
    needed: list[str] = []
    soname = ""
    for segment in segments:
        if segment[0] == _PT_DYNAMIC:
            needed, soname = _names(file, segment[2], segment[5], loads)
    return {"needed": needed, "soname": soname, "execstack": bool(stack and stack[0] & 1)}


def _names(
    file: Any, offset: int, size: int, loads: list[tuple[int, int, int]]
) -> tuple[list[str], str]:
    raw = _part(file, offset, min(size, _MOST))
    entries = [struct.unpack_from("<qQ", raw, 16 * n) for n in range(len(raw) // 16)]
    by_tag = dict(entries)
    where = by_tag.get(_DT_STRTAB, 0)
    place = next((at + where - v for v, at, length in loads if v <= where < v + length), where)

    def name(at: int) -> str:
        # the table of a large library is hundreds of MiB: each name is read where it stands
        return _part(file, place + at, 256).partition(b"\0")[0].decode(errors="replace")

    needed = [name(value) for tag, value in entries if tag == _DT_NEEDED][:200]
    soname = by_tag.get(_DT_SONAME)
    return [one for one in needed if one], "" if soname is None else name(soname)


def _part(file: Any, offset: int, size: int) -> bytes:
    file.seek(offset, os.SEEK_SET)
    read: bytes = file.read(size)
    return read
