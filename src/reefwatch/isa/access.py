"""What a memory instruction does, in one frozen value for the runtime and the observers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reefwatch.isa.text import Instruction

#: suffix of the mnemonic -> (bytes of an element, elements, signed, register half or None)
WIDTHS: dict[str, tuple[int, int, bool, int | None]] = {
    "b8": (1, 1, False, None), "b16": (2, 1, False, None), "b32": (4, 1, False, None),
    "b64": (4, 2, False, None), "b96": (4, 3, False, None), "b128": (4, 4, False, None),
    "u8": (1, 1, False, None), "i8": (1, 1, True, None),
    "u16": (2, 1, False, None), "i16": (2, 1, True, None),
    "d16_u8": (1, 1, False, 0), "d16_i8": (1, 1, True, 0), "d16_b16": (2, 1, False, 0),
    "u8_d16": (1, 1, False, 0), "i8_d16": (1, 1, True, 0), "u16_d16": (2, 1, False, 0),
    "d16_hi_u8": (1, 1, False, 1), "d16_hi_i8": (1, 1, True, 1),
    "d16_hi_b16": (2, 1, False, 1), "d16_hi_b8": (1, 1, False, 1),
    "u8_d16_hi": (1, 1, False, 1), "i8_d16_hi": (1, 1, True, 1),
    "u16_d16_hi": (2, 1, False, 1), "b16_d16_hi": (2, 1, False, 1), "b8_d16_hi": (1, 1, False, 1),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Access:
    """One memory instruction, resolved."""

    instruction: Instruction
    space: str  # global, buffer, flat, scratch, lds
    kind: str  # load, store, atomic
    size: int  # bytes of an element
    count: int  # elements one after another
    signed: bool = False
    half: int | None = None  # load into, or store from, this half of the register
    data: int = 0  # first register loaded, stored or added
    result: int | None = None  # an atomic's old value goes here
    address: int | None = None  # vector register(s) of the address
    base: int | None = None  # scalar register(s): a base, a resource, or a scratch offset
    scalar_offset: int | None = None
    scalar_offset_value: int = 0
    offset: int = 0
    second: int | None = None  # the second address of a two-address LDS instruction, as an offset
    data2: int = 0
    operation: str = ""  # of an atomic
    scope: str = ""

    @property
    def bytes(self) -> int:
        """Bytes that one lane touches at one address."""
        return self.size * self.count


_OLD_WIDTH = {"dword": "b32", "dwordx2": "b64", "dwordx3": "b96", "dwordx4": "b128",
              "ubyte": "u8", "sbyte": "i8", "ushort": "u16", "sshort": "i16",
              "byte": "b8", "short": "b16", "ubyte_d16": "d16_u8", "sbyte_d16": "d16_i8",
              "short_d16": "d16_b16", "ubyte_d16_hi": "d16_hi_u8", "sbyte_d16_hi": "d16_hi_i8",
              "short_d16_hi": "d16_hi_b16", "byte_d16_hi": "d16_hi_b8"}  # fmt: skip


def modern(mnemonic: str) -> str:
    """The gfx11 name of a gfx9 memory instruction; others stay."""
    found = re.match(r"^(global|buffer|flat|scratch)_(load|store)_(\w+)$", mnemonic)
    if found and found[3] in _OLD_WIDTH:
        return f"{found[1]}_{found[2]}_{_OLD_WIDTH[found[3]]}"
    if found and found[3].startswith("lds_"):
        return mnemonic
    found = re.match(r"^ds_(read|write)(2)?(st64)?_(\w+)$", mnemonic)
    if found:
        way = "load" if found[1] == "read" else "store"
        two = ("_2addr" if found[2] else "") + ("_stride64" if found[3] else "")
        return f"ds_{way}{two}_{found[4]}"
    found = re.match(r"^s_load_(dword\w*)$", mnemonic)
    if found:
        return f"s_load_b{32 * int(found[1].removeprefix('dword').lstrip('x') or 1)}"
    return mnemonic
