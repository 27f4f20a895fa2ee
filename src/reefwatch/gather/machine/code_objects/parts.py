"""GPU code in a stretch of bytes: offload bundles, code objects, CUDA fat binaries.

Formats: clang's offload bundles (docs/ClangOffloadBundler.rst; compressed ones, "CCOB" versions 1
to 3, clang/lib/Driver/OffloadBundler.cpp), ELF code objects (docs/AMDGPUUsage.rst), and CUDA fat
binaries, whose format is not published: what is read of those was found in files.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from reefwatch.data.targets import SPIRV
from reefwatch.gather.machine.code_objects import elf, zstd
from reefwatch.gather.machine.code_objects.window import LARGEST, Window

NO_CODE = "it does not begin with GPU code of a known format"
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED = b"CCOB"
FATBIN = b"\x50\xed\x55\xba"
_ANY = re.compile(
    BUNDLE
    + rb"|CCOB[\x01-\x03]\x00[\x00\x01]\x00|"
    + re.escape(FATBIN)
    + rb"\x01\x00\x10\x00|\x7fELF\x02\x01\x01\x40"
)
_LONGEST = len(BUNDLE)
_MOST_ENTRIES = 4096
_MOST_NAME = 1024
_HEAD = 1 << 15
"""Bytes of an unpacked bundle that are looked at for its table; a larger table is followed."""
_GFX = re.compile(r"gfx[0-9a-f]+(?:-[0-9]+)*(?:-generic)?(?::[a-z]+[+-])*$")
_SM = re.compile(r"sm_\d+[a-z]?$")


@dataclass(frozen=True)
class Part:
    """One piece of GPU code: a bundle (for several targets), a code object or a fat binary."""

    kind: str
    targets: tuple[str, ...] = ()
    unknown: str = ""
    """Why its targets are not known, or not all of them."""

    @property
    def doubtful(self) -> bool:
        """Whether it may be no code at all, but bytes that look like its beginning."""
        return bool(self.unknown) and not self.targets


@dataclass(frozen=True)
class _Entry:
    offset: int
    size: int
    name: str


def parts(window: Window, sure: bool) -> Iterator[Part]:
    """What lies in the window. With `sure` it should begin with GPU code: damage is then told.

    Without, the marks are searched for, and what only looks like one (a compiler holds them as
    text) is passed over.
    """
    if sure:
        head = window.peek(LARGEST)
        found = _ANY.search(head)
        if found is None and head.strip(b"\0"):
            yield Part("unknown", unknown=NO_CODE)
    for _, _, part in located(window):
        if sure or not part.doubtful:
            yield part


def located(window: Window) -> Iterator[tuple[int, int, Part]]:
    """(where, up to where, what) of all marks in the window, doubtful ones too."""
    blurred = False
    while ahead := window.peek(LARGEST):
        found = _ANY.search(ahead)
        if found is None:
            if len(ahead) < LARGEST:
                return
            window.skip(len(ahead) - _LONGEST + 1)
            continue
        window.skip(found.start())
        at = window.position
        part, size = _READERS[found[0][:4]](window)
        window.skip(size if window.position > at else max(1, size))
        if not (blurred and part.doubtful):
            yield at, window.position, part
        if found[0].startswith(b"CCOB\x01"):
            blurred = True  # its length is not told: what follows may be its own packed bytes


def _bundle(window: Window) -> tuple[Part, int]:
    entries = table(window.peek(_HEAD))
    if entries is None:
        entries = table(window.peek(LARGEST))
    if entries is None:
        return Part("bundle", unknown="the table of an offload bundle is damaged"), 1
    end = max((entry.offset + entry.size for entry in entries), default=0)
    unknown = "an offload bundle is cut off" if end > window.room else ""
    found: list[str] = []
    begun = window.position
    for entry in sorted(entries, key=lambda entry: entry.offset):
        name = _target(entry)
        if name is None:
            continue
        ahead = begun + entry.offset - window.position
        if 0 <= ahead <= window.room:
            window.skip(ahead)
            name, told = _checked(name, window.peek(64))
            unknown = unknown or told
        found.append(name)
    return Part("bundle", tuple(found), unknown), min(begun + end - window.position, window.room)


def _checked(name: str, head: bytes) -> tuple[str, str]:
    """What the code object itself says it is for, where it is an ELF file; and how they differ."""
    try:
        real = elf.target(head)
    except elf.Malformed:
        return name, ""
    if real.partition(":")[0] == name.partition(":")[0]:
        return name, ""
    return real, f"an entry is called {name} and holds code for {real}"


def table(head: bytes) -> list[_Entry] | None:
    """The entries of a bundle by its first bytes; None when they make no sense or are cut off."""
    if head[:24] != BUNDLE or len(head) < 32:
        return None
    (count,) = struct.unpack_from("<Q", head, 24)
    if not 0 < count <= _MOST_ENTRIES:
        return None
    at, entries = 32, []
    for _ in range(count):
        if at + 24 > len(head):
            return None
        offset, size, length = struct.unpack_from("<QQQ", head, at)
        name = head[at + 24 : at + 24 + length] if length <= _MOST_NAME else b""
        if not name or len(name) < length or not re.fullmatch(rb"[\x21-\x7e]+", name):
            return None
        if offset + size >= 1 << 62:
            return None
        entries.append(_Entry(offset, size, name.decode("ascii")))
        at += 24 + length
    return entries


def _target(entry: _Entry) -> str | None:
    """The target of an entry that holds code for a GPU."""
    if not entry.size or entry.name.startswith("host"):
        return None
    if "amdgcnspirv" in entry.name:
        return SPIRV
    if "amdgcn" in entry.name and (found := _GFX.search(entry.name)):
        return found[0]
    found = _SM.search(entry.name)
    return found[0] if found else None


def _compressed(window: Window) -> tuple[Part, int]:
    head = window.peek(32)
    version, method = struct.unpack_from("<HH", head, 4)
    size, start = {1: (0, 20), 2: (4, 24), 3: (8, 32)}[version]
    total = int.from_bytes(head[8 : 8 + size], "little")
    if len(head) < start or (size and total <= start):
        return Part("bundle", unknown="a compressed bundle is damaged"), 1
    raw = window.peek(min(total or LARGEST, LARGEST))[start:]
    cut = "a compressed bundle is cut off" if total > window.room else ""
    entries, why = None, "a compressed bundle is damaged"
    for wanted in (_HEAD, LARGEST):
        try:
            entries = table(_unpacked(raw, method, wanted))
        except (zlib.error, zstd.Malformed) as error:
            why = f"a compressed bundle does not unpack: {error}"
        if entries is not None:
            break
    if entries is None:
        return Part("bundle", unknown=cut or why), min(total, window.room) if cut else 1
    found = (_target(entry) for entry in entries)
    return Part("bundle", tuple(name for name in found if name), cut), total or start


def _unpacked(raw: bytes, method: int, wanted: int) -> bytes:
    if method == 1:
        return zstd.prefix(raw, wanted)
    return zlib.decompressobj().decompress(raw, wanted)


def _object(window: Window) -> tuple[Part, int]:
    try:
        return Part("code object", (elf.target(window.peek(64)),)), 64
    except elf.Malformed as error:
        return Part("code object", unknown=str(error)), 1


def _fatbin(window: Window) -> tuple[Part, int]:
    (size,) = struct.unpack("<Q", window.peek(16)[8:16].ljust(8, b"\0"))
    unknown = "a CUDA fat binary is cut off" if size + 16 > window.room else ""
    window.skip(16)
    left, found = min(size, window.room), list[str]()
    while left >= 64 and len(found) < _MOST_ENTRIES:
        head = window.peek(64)
        if len(head) < 64:
            break
        kind, _, header, payload = struct.unpack_from("<HHIQ", head)
        (arch,) = struct.unpack_from("<I", head, 28)
        if kind not in (1, 2) or not 48 <= header <= 4096 or not 10 <= arch < 1000:
            unknown = unknown or "a CUDA fat binary holds what is not known"
            break
        found.append(f"{'ptx' if kind == 1 else 'sm'}_{arch}")
        step = min(header + payload, left)
        window.skip(step)
        left -= step
    if not found:
        return Part("fat binary", unknown=unknown or "a CUDA fat binary is empty"), 1
    return Part("fat binary", tuple(dict.fromkeys(found)), unknown), left


_READERS = {
    BUNDLE[:4]: _bundle,
    COMPRESSED: _compressed,
    FATBIN: _fatbin,
    elf.MAGIC: _object,
}
