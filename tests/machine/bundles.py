"""Small bundles, code objects, fat binaries and ELF files, made by hand for the tests."""

from __future__ import annotations

import random
import struct
import zlib

MACH = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1030": 0x36, "gfx1100": 0x41, "gfx1101": 0x46}


def code_object(flags: int, abi: int = 3, size: int = 256) -> bytes:
    """An ELF file of an AMD GPU with these e_flags."""
    ident = b"\x7fELF\x02\x01\x01\x40" + bytes([abi]) + bytes(7)
    head = struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 64, 0, flags, 64, 56, 0, 64, 0, 0)
    return (ident + head).ljust(size, b"\xaa")


def bundle(names: list[str], payload: dict[str, bytes] | None = None) -> bytes:
    """An offload bundle for these targets, with an empty host entry in front."""
    entries = [("host-x86_64-unknown-linux-gnu-", b"")]
    for name in names:
        plain = name.partition(":")[0]
        made = (payload or {}).get(name, code_object(MACH.get(plain, 0x41)))
        entries.append((f"hipv4-amdgcn-amd-amdhsa--{name}", made))
    head = 32 + sum(24 + len(name) for name, _ in entries)
    at, table, body = (head + 63) // 64 * 64, b"", b""
    for name, made in entries:
        table += struct.pack("<QQQ", at, len(made), len(name)) + name.encode()
        body += made
        at += len(made)
    start = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + table
    return start.ljust((head + 63) // 64 * 64, b"\0") + body


def compressed(raw: bytes, version: int, packed: bytes | None = None) -> bytes:
    """The same as a CCOB bundle; `packed` is a Zstandard frame, else zlib is used."""
    body, method = (zlib.compress(raw), 0) if packed is None else (packed, 1)
    sizes = {1: "<I", 2: "<II", 3: "<QQ"}[version]
    total = {1: 20, 2: 24, 3: 32}[version] + len(body)
    told = (len(raw),) if version == 1 else (total, len(raw))
    return (
        b"CCOB" + struct.pack("<HH", version, method) + struct.pack(sizes, *told) + b"h" * 8 + body
    )


def fatbin(*archs: tuple[int, int]) -> bytes:
    """A CUDA fat binary with entries (kind 1 PTX or 2 code, arch)."""
    entries = b""
    for kind, arch in archs:
        head = struct.pack("<HHIQIIHHI", kind, 0x101, 64, 40, 0, 0, 0, 1, arch).ljust(64, b"\0")
        entries += head + b"\x11" * 40
    return b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 16, len(entries)) + entries


def shared_object(sections: dict[str, bytes]) -> bytes:
    """A host ELF file with these sections."""
    names, rows, body = b"\0", [(0, 0, 0, 0)], b""
    for name, data in [*sections.items(), (".shstrtab", b"")]:
        at = len(names)
        names += name.encode() + b"\0"
        body += b"\0" * (-(64 + len(body)) % 64)
        rows.append((at, 1, 64 + len(body), len(data)))
        body += data
    at = rows[-1][0]
    rows[-1] = (at, 3, 64 + len(body), len(names))
    body += names + b"\0" * (-(len(body) + len(names)) % 8)
    ident = b"\x7fELF\x02\x01\x01\x00" + bytes(8)
    head = struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, len(rows), len(rows) - 1
    )
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, start, size, 0, 0, 1, 0)
        for name, kind, start, size in rows
    )
    return ident + head + body + table


def _texts() -> dict[str, bytes]:
    dice = random.Random(7)
    words = [bytes(dice.randrange(256) for _ in range(dice.randrange(2, 9))) for _ in range(60)]
    return {
        "bundle": bundle(["gfx90a", "gfx942", "gfx1100", "gfx1101"]),
        "words": b"".join(dice.choice(words) for _ in range(4000)),
        "letters": bytes(dice.choice(b"aaabbcdefgh \n") for _ in range(5000)),
        "noise": bytes(dice.randrange(256) for _ in range(700)),
        "zeros": bytes(300_000),
    }


TEXTS = _texts()
"""What `tests/data/code_objects/<name>-<level>.zst` unpack to (zstd 1.5, `zstandard` 0.25)."""
