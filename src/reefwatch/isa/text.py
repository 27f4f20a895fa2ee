"""Reads AMD GPU assembly text, as LLVM prints it, into a Program.

Nothing is interpreted here: an instruction keeps its mnemonic, its operands and its modifiers, and
whoever defines the instruction must consume every one of them. Syntax: LLVM's "Syntax of AMDGPU
Instruction Operands" and "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from reefwatch.core.errors import ReefwatchError

VCC, TTMP, NULL, M0, EXEC = 106, 108, 124, 125, 126
SCALARS = 128  # rows of the scalar file: s0..s105, then the named ones above

_NAMED = {
    "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1), "vcc": (VCC, 2), "null": (NULL, 1),
    "m0": (M0, 1), "exec_lo": (EXEC, 1), "exec_hi": (EXEC + 1, 1), "exec": (EXEC, 2),
}  # fmt: skip
_FLAGS = frozenset(
    ("glc", "slc", "dlc", "scc", "sc0", "sc1", "nt", "offen", "idxen", "clamp", "gds", "lds", "tfe",
     "lwe", "row_mirror", "row_half_mirror", "high_half", "addr64", "unorm")
)  # fmt: skip
_REGISTER = re.compile(r"^([vsa])(\d+)(?:\.([lh]))?$")
_RANGE = re.compile(r"^(v|s|a|ttmp)\[(\d+):(\d+)\]$")
_TTMP = re.compile(r"^ttmp(\d+)$")
_INTEGER = re.compile(r"^-?(0x[0-9a-fA-F]+|\d+)$")
_FLOAT = re.compile(r"^-?\d+\.\d*(e[+-]?\d+)?$")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_LABEL = re.compile(r"^([\w$.]+):")


class UnreadableProgram(ReefwatchError):
    """The text is not an AMD GPU kernel; says why."""


@dataclass(frozen=True)
class Operand:
    """One operand: registers (`v`, `s`, `a`), a constant (`c`), or a bare word (`w`)."""

    kind: str
    text: str
    index: int = 0
    count: int = 1
    half: int | None = None  # 1 is `.h`, 0 is `.l`: a 16-bit register
    value: int | float = 0
    neg: bool = False
    abs: bool = False
    sext: bool = False

    @property
    def registers(self) -> range:
        """Rows of the register file that the operand names."""
        return range(self.index, self.index + self.count)


@dataclass(frozen=True)
class Instruction:
    """One instruction; `line` counts the text's lines from 1, `loc` is the source's file:line."""

    mnemonic: str
    operands: tuple[Operand, ...]
    modifiers: dict[str, str]
    text: str
    line: int
    loc: str = ""

    @property
    def base(self) -> str:
        """The mnemonic without its encoding."""
        return re.sub(r"_(e64_dpp|e32|e64|dpp|sdwa)$", "", self.mnemonic)


@dataclass(frozen=True)
class Argument:
    """One kernel argument: bytes at `offset` of the argument block."""

    offset: int
    size: int
    kind: str


@dataclass
class Program:
    """A kernel: instruction slots (two instructions in a dual-issue slot), labels, descriptor."""

    name: str
    target: str
    slots: list[tuple[Instruction, ...]]
    labels: dict[str, int]
    descriptor: dict[str, int]
    metadata: dict[str, str]
    arguments: list[Argument]
    cache: dict[str, object] = field(default_factory=dict, repr=False)

    @property
    def wave(self) -> int:
        """Lanes of a wave."""
        return int(self.metadata.get("wavefront_size", "0")) or (
            32 if self.descriptor.get("wavefront_size32", 0) else 64
        )

    @property
    def waves(self) -> int:
        """Waves of a workgroup, as the metadata states it."""
        return max(1, int(self.metadata.get("max_flat_workgroup_size", self.wave)) // self.wave)


def split(text: str) -> list[str]:
    """Pieces between the commas that stand in no bracket."""
    pieces, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == "," and depth == 0:
            pieces.append(text[start:at].strip())
            start = at + 1
    pieces.append(text[start:].strip())
    return [piece for piece in pieces if piece]


@lru_cache(maxsize=65536)
def read_operand(text: str) -> Operand:
    """One operand with its signs; an unknown one stays a bare word."""
    if text.startswith("sext(") and text.endswith(")"):
        return replace(read_operand(text[5:-1]), sext=True)
    for prefix, suffix in (("neg(", ")"), ("-", "")):
        inner = text[len(prefix) : len(text) - len(suffix)]
        if text.startswith(prefix) and text.endswith(suffix) and not _plain_number(text):
            return replace(read_operand(inner), neg=True, text=text)
    for prefix, suffix in (("|", "|"), ("abs(", ")")):
        if len(text) > 1 and text.startswith(prefix) and text.endswith(suffix):
            inner = text[len(prefix) : len(text) - len(suffix)]
            return replace(read_operand(inner), abs=True, text=text)
    return _bare_operand(text)


def _plain_number(text: str) -> bool:
    return bool(_INTEGER.match(text) or _FLOAT.match(text))


def _bare_operand(text: str) -> Operand:
    if found := _REGISTER.match(text):
        half = None if found[3] is None else int(found[3] == "h")
        return Operand(found[1], text, int(found[2]), half=half)
    if found := _RANGE.match(text):
        kind, first, last = found[1], int(found[2]), int(found[3])
        shift, kind = (TTMP, "s") if kind == "ttmp" else (0, kind)
        return Operand(kind, text, first + shift, last - first + 1)
    if found := _TTMP.match(text):
        return Operand("s", text, TTMP + int(found[1]))
    if text in _NAMED:
        index, count = _NAMED[text]
        return Operand("s", text, index, count)
    if _INTEGER.match(text):
        return Operand("c", text, value=int(text, 0))
    if _FLOAT.match(text):
        return Operand("c", text, value=float(text))
    return Operand("w", text)


def read_instruction(text: str, line: int = 0, loc: str = "") -> Instruction:
    """Mnemonic, operands and modifiers of one instruction."""
    mnemonic, _, rest = text.strip().partition(" ")
    operands: list[Operand] = []
    modifiers: dict[str, str] = {}
    if mnemonic.startswith(("s_wait", "s_delay_alu", "s_sendmsg")):
        return Instruction(mnemonic, (Operand("w", rest.strip()),), {}, text.strip(), line, loc)
    for piece in split(rest.strip()):
        for token in _tokens(piece):
            name, colon, value = token.partition(":")
            if (colon and "[" not in name) or token in _FLAGS:
                modifiers[name] = value
            else:
                operands.append(read_operand(token))
    return Instruction(mnemonic, tuple(operands), modifiers, text.strip(), line, loc)


def _tokens(piece: str) -> list[str]:
    """Words of a piece; blanks inside brackets do not part them."""
    return re.findall(r"(?:[^\s\[(]|\[[^\]]*\]|\([^)]*\))+", piece)


def read_program(text: str) -> Program:
    """A Program from assembly text. Raises UnreadableProgram where there is no kernel in it."""
    slots: list[tuple[Instruction, ...]] = []
    labels: dict[str, int] = {}
    descriptor: dict[str, int] = {}
    files: dict[str, str] = {}
    in_text, loc, name, target = False, "", "", ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.split(";", 1)[0].split("//", 1)[0].strip()
        if not line:
            continue
        if line[0] == ".":
            if line.startswith(".amdhsa_") and not line.startswith(".amdhsa_kernel "):
                key, _, value = line[8:].partition(" ")
                descriptor[key] = int(value, 0) if _INTEGER.match(value.strip()) else 0
                continue
            if line.startswith(".amdhsa_kernel "):
                name = line.split()[1]
            elif line.startswith(".text"):
                in_text = True
            elif line.startswith(".section"):
                in_text = line.split()[1].startswith(".text")
            elif found := _LOC.match(line):
                loc = f"{files.get(found[1], found[1])}:{found[2]}" if found[2] != "0" else loc
            elif found := _FILE.match(line):
                files[found[1]] = f"{found[2]}/{found[3]}" if found[2] else found[3]
            elif line.startswith(".amdgcn_target"):
                target = line.split("--")[-1].strip('"').split(":")[0]
            elif line.startswith(".amdgpu_metadata"):
                break
            elif line.startswith(".fill") and in_text and _traps_only(slots):
                slots.clear()  # for firmware that cannot preload arguments; others start after it
        if found := _LABEL.match(line):
            if in_text:
                labels[found[1]] = len(slots)
        elif in_text and line[0] != ".":
            halves = line.replace("\t", " ").split("::")
            slots.append(tuple(read_instruction(half, number, loc) for half in halves))
    if not slots or not descriptor:
        raise UnreadableProgram("the text holds no AMD GPU kernel: no code or no kernel descriptor")
    metadata, arguments = _read_metadata(text)
    name = metadata.get("name", name)
    return Program(name, target, slots, labels, descriptor, metadata, arguments)


def _traps_only(slots: list[tuple[Instruction, ...]]) -> bool:
    return bool(slots) and all(slot[0].mnemonic == "s_trap" for slot in slots)


def _read_metadata(text: str) -> tuple[dict[str, str], list[Argument]]:
    """The `.amdgpu_metadata` block, as far as it is needed: plain keys and the arguments."""
    block = text.partition(".amdgpu_metadata")[2].partition(".end_amdgpu_metadata")[0]
    arguments, entry, metadata = [], dict[str, str](), dict[str, str]()
    for line in block.split("\n"):
        found = re.match(r"^(\s*)(- )?\.(\w+):\s*(.*)$", line)
        if not found:
            continue
        indent, fresh, key, value = len(found[1]), found[2], found[3], found[4].strip()
        if indent <= 4:
            metadata[key] = value
            continue
        if fresh:
            entry = {}
        entry[key] = value
        if {"offset", "size", "value_kind"} <= entry.keys():
            place = Argument(int(entry["offset"]), int(entry["size"]), entry["value_kind"])
            arguments.append(place)
            entry = {}
    return metadata, arguments
