"""Sections and flags of an ELF file, read by hand. Nothing in the file is trusted."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from reefwatch.data import targets

MAGIC = b"\x7fELF"
AMDGPU = 224
"""e_machine of a code object."""
_HSA = 64
_MOST_NAMES = 1 << 20
_NOBITS = 8

Read = Callable[[int, int], bytes]
"""(offset, count) -> so many bytes, fewer at the end."""


class Malformed(ValueError):
    """What is no ELF file of 64 bits, or contradicts itself."""


@dataclass(frozen=True)
class Section:
    """A part of the file; of the size that it claims, which may be beyond the end."""

    name: str
    offset: int
    size: int


def machine(head: bytes) -> int:
    """e_machine. Raises Malformed."""
    if len(head) < 52 or head[:4] != MAGIC:
        raise Malformed("no ELF file")
    if head[4:6] != b"\x02\x01":
        raise Malformed("an ELF file of 32 bits, or of the other byte order")
    return int(struct.unpack_from("<H", head, 18)[0])


def target(head: bytes) -> str:
    """The GPU target of a code object by its e_flags: `gfx90a:sramecc+`. Raises Malformed."""
    if machine(head) != AMDGPU:
        raise Malformed("no code object of an AMD GPU")
    flags = int(struct.unpack_from("<I", head, 48)[0])
    name = targets.MACH.get(flags & 0xFF)
    if name is None:
        raise Malformed(
            f"a code object for an unknown processor (EF_AMDGPU_MACH {flags & 0xFF:#x})"
        )
    if head[7] != _HSA or head[8] < 1:
        return name
    if head[8] == 1:  # code object v3: a bit each
        return name + (":sramecc+" if flags & 0x200 else "") + (":xnack+" if flags & 0x100 else "")
    signs = {2: "-", 3: "+"}
    xnack, sramecc = signs.get((flags >> 8) & 3), signs.get((flags >> 10) & 3)
    return name + (f":sramecc{sramecc}" if sramecc else "") + (f":xnack{xnack}" if xnack else "")


def sections(read: Read) -> list[Section]:
    """The sections with bytes in the file. Raises Malformed."""
    head = read(0, 64)
    machine(head)
    if len(head) < 64:
        raise Malformed("an ELF file that is cut off")
    table = int(struct.unpack_from("<Q", head, 40)[0])
    each, count, names_at = struct.unpack_from("<HHH", head, 58)
    if not table:
        return []
    if each < 64:
        raise Malformed("section headers of no known size")
    first = _header(read, table)
    count = count or min(first[5], 1 << 16)  # more than 65279 sections: told in the first one
    names_at = first[6] if names_at == 0xFFFF else names_at
    rows = [_header(read, table + each * number) for number in range(count)]
    if not 0 <= names_at < len(rows):
        raise Malformed("no section holds the names")
    offset, size = rows[names_at][4], rows[names_at][5]
    names = read(offset, min(size, _MOST_NAMES))
    return [
        Section(_name(names, row[0]), row[4], row[5]) for row in rows if row[1] not in (0, _NOBITS)
    ]


def _header(read: Read, offset: int) -> tuple[int, ...]:
    raw = read(offset, 64)
    if len(raw) < 64:
        raise Malformed("an ELF file that is cut off: its section headers are not there")
    return struct.unpack("<IIQQQQIIQQ", raw)


def _name(names: bytes, at: int) -> str:
    end = names.find(b"\0", at, at + 256)
    return names[at:end].decode("latin-1") if end > at else ""
