"""Turns one instruction at a time into lines of Python, and notes what it reads and writes.

The lines work on a State (see state.py): `U[5]` is v5 of all waves and lanes as u32, `F[5]` the
same bits as f32, `S[5]` is s5 of all waves, `SU[5]` the same as a column. `X` is the mask of lanes
that take part. Three modes give three texts: `full` (all waves, all lanes), `lanes` (all waves,
some lanes), `part` (some waves).
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, field
from typing import Any

from reefwatch.isa import arith
from reefwatch.isa.dpp import dpp_lanes
from reefwatch.isa.table import TABLE, Row
from reefwatch.isa.text import EXEC, NULL, VCC, Instruction, Operand

AGPR = 256  # the accumulation registers follow the vector registers
#: type -> (letter of the register lists, numpy name, bits)
TYPES = {
    "u32": ("U", "u32", 32), "i32": ("I", "i32", 32), "f32": ("F", "f32", 32),
    "b32": ("U", "u32", 32), "u16": ("W", "u16", 16), "i16": ("J", "i16", 16),
    "f16": ("H", "f16", 16), "b16": ("W", "u16", 16), "u64": ("U", "u64", 64),
    "i64": ("U", "i64", 64), "f64": ("U", "f64", 64), "b64": ("U", "u64", 64),
}  # fmt: skip
NUMPY: dict[str, Any] = {
    name: getattr(arith, name) for name in ("u16", "i16", "f16", "u32", "i32", "f32",
                                            "u64", "i64", "f64")
}  # fmt: skip
_NAME = re.compile(r"\b([abcd]|vcc)\b")
_PLAIN = {"+": "add", "-": "subtract", "*": "multiply", "&": "bitwise_and",
          "|": "bitwise_or", "^": "bitwise_xor"}  # fmt: skip
_SIMPLE = re.compile(r"^([abc]) ([-+*&|^]) ([abc])$")


class Refused(Exception):
    """The instruction, or something about it, is not modelled."""


@dataclass
class Effect:
    """What one instruction touches; vector registers count as two 16-bit halves."""

    instruction: Instruction
    reads: int = 0
    writes: int = 0
    scalar_reads: int = 0
    scalar_writes: int = 0
    issues: tuple[tuple[str, int, int], ...] = ()  # counter, vector halves, scalars on their way
    waits: tuple[tuple[str, int], ...] = ()  # counter, how many may remain
    kind: str = "alu"
    access: Any = None
    facts: dict[str, Any] = field(default_factory=dict)


class Emitter:
    """Emits the instructions of one block for one mode."""

    def __init__(self, gen: Any, mode: str, denormals: bool = True) -> None:
        self.gen = gen
        self.mode = mode
        self.denormals = denormals
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.effects: list[Effect] = []
        self.approximate: set[str] = set()
        self.masks: dict[int, str] = {}  # scalar register -> local name of its unpacked mask
        self.serial = 0
        self.effect: Effect
        self.instruction: Instruction
        self.operands: list[Operand]
        self.modifiers: dict[str, str]
        self.dpp: Any = None

    # ---- one slot: one instruction, or two that read before either writes
    def slot(self, instructions: tuple[Instruction, ...]) -> None:
        """Emit a slot. Raises Refused."""
        if len(instructions) == 1:
            self._one(instructions[0])
            return
        start, effects = len(self.lines), len(self.effects)
        self._one(instructions[0])
        middle = len(self.lines)
        self._one(instructions[1])
        first, second = self.effects[effects:]
        if first.writes & second.reads:  # the second half must see the old values
            saved: list[str] = []
            later = self.lines[middle:]
            if second.writes & first.reads:
                later, saved = self._through_copy(later, second)
                self.lines[start:] = [*later, *self.lines[start:middle], *saved]
            else:
                self.lines[start:] = [*later, *self.lines[start:middle]]

    def _through_copy(self, lines: list[str], effect: Effect) -> tuple[list[str], list[str]]:
        """Both halves read what the other writes: keep the second's result aside."""
        rows = [r for r in range(512) if effect.writes >> (2 * r) & 3]
        keep = [f"k{r} = U[{r}].copy()" for r in rows]
        swap = [f"r{r} = U[{r}].copy(); U[{r}][...] = k{r}" for r in rows]
        return [*keep, *lines, *swap], [f"U[{r}][...] = r{r}" for r in rows]

    def _one(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.operands = list(instruction.operands)
        self.modifiers = dict(instruction.modifiers)
        self.effect = Effect(instruction)
        self.effects.append(self.effect)
        name = self.gen.canonical(instruction)
        if instruction.mnemonic.endswith("dpp"):
            self.dpp = dpp_lanes(self.modifiers, self.gen.wave)
        else:
            self.dpp = None
        if "clamp" in self.modifiers and f"{name}+clamp" in TABLE.lane:
            del self.modifiers["clamp"]
            name += "+clamp"
        if name in TABLE.lane:
            self.lane_row(TABLE.lane[name])
        elif name in TABLE.scalar:
            self._scalar_row(TABLE.scalar[name])
        elif name in TABLE.specials:
            TABLE.specials[name](self)
        else:
            raise Refused("unknown mnemonic")
        if self.operands:
            raise Refused(f"operand {self.operands[0].text} is not modelled")
        if self.modifiers:
            raise Refused(f"modifier {next(iter(self.modifiers))} is not modelled")
        if self.dpp is not None:
            raise Refused("DPP is not modelled here")

    # ---- consuming the instruction
    def take(self) -> Operand:
        """The next operand. Raises Refused where there is none."""
        if not self.operands:
            raise Refused("an operand is missing")
        return self.operands.pop(0)

    def flag(self, name: str) -> bool:
        """Consume a modifier that has no value."""
        return self.modifiers.pop(name, None) is not None

    def number(self, name: str, default: int = 0) -> int:
        """Consume a modifier that is a number."""
        return int(self.modifiers.pop(name, str(default)), 0)

    def bits(self, name: str, default: list[int]) -> list[int]:
        """Consume a modifier that is a list of bits, such as op_sel."""
        if name not in self.modifiers:
            return default
        return [int(bit) for bit in self.modifiers.pop(name).strip("[]").split(",")]

    # ---- lines
    def line(self, text: str) -> None:
        """Add a line of Python."""
        self.lines.append(text)

    def local(self, expression: str) -> str:
        """Keep a value under a fresh local name."""
        self.serial += 1
        self.lines.append(f"t{self.serial} = {expression}")
        return f"t{self.serial}"

    def constant(self, value: Any) -> str:
        """Keep an object for the lines under a fresh name."""
        name = f"K{len(self.constants)}"
        self.constants[name] = value
        return name

    # ---- what is read and written
    def note_read(self, operand: Operand, half: int | None = None) -> None:
        """Record that registers are read."""
        if operand.kind == "s":
            for row in operand.registers:
                self.effect.scalar_reads |= 1 << row
        else:
            self.effect.reads |= vector_bits(operand, half)

    def note_write(self, operand: Operand, half: int | None = None) -> None:
        """Record that registers are written, and forget masks that they held."""
        if operand.kind == "s":
            for row in operand.registers:
                self.effect.scalar_writes |= 1 << row
                self.masks.pop(row, None)
                self.masks.pop(row - 1, None)
        else:
            self.effect.writes |= vector_bits(operand, half)

    # ---- vector operands
    def read(self, operand: Operand, kind: str, half: int = 0) -> str:
        """An expression for an operand of a lane instruction; (waves, lanes) or a column."""
        if kind == "mask":
            return self.read_mask(operand)
        if kind == "h32":  # a whole register, or in some assemblers' view a half of one
            if operand.half is None:
                return self.read(operand, "u32")
            return f"{self.read(operand, 'u16')}.astype(u32)"
        letter, name, bits = TYPES[kind]
        if operand.sext:
            raise Refused("sext is not modelled here")
        if operand.kind == "c":
            return self._constant(operand, kind)
        if operand.kind == "w":
            if operand.text in ("scc", "src_scc"):
                return "st.scc[:, None].astype(u32)"
            raise Refused(f"operand {operand.text} is not modelled")
        if (bits == 64 and operand.count != 2) or (bits != 64 and operand.count != 1):
            raise Refused(f"operand {operand.text} has the wrong size")
        half = operand.half if operand.half is not None else half
        self.note_read(operand, half if bits == 16 else None)
        text = self._register(operand, letter, name, bits, half)
        if kind == "f32" and not self.denormals:
            text = f"flush({text})"
        return self._signed(text, operand, kind)

    def _register(self, operand: Operand, letter: str, name: str, bits: int, half: int) -> str:
        row = vector_row(operand)
        if operand.kind == "s":
            if bits == 64:
                text = f"pair(SU[{row}], SU[{row + 1}])"
                return text if name == "u64" else f"{text}.view({name})"
            if bits == 16:
                return f"half(SU[{row}], {half}, {name})"
            return f"S{letter}[{row}]"
        if bits == 64:
            text = f"pair(U[{row}], U[{row + 1}])"
            return text if name == "u64" else f"{text}.view({name})"
        if bits == 16:
            return f"{'h' if half else 'l'}{letter}[{row}]"
        if operand.half is not None:  # a 16-bit register where the type is 32-bit: a mere move
            raise Refused(f"operand {operand.text} has the wrong size")
        return f"{letter}[{row}]"

    def _signed(self, text: str, operand: Operand, kind: str) -> str:
        if not (operand.neg or operand.abs):
            return text
        if kind[0] == "f":
            text = f"absolute({text})" if operand.abs else text
            return f"(-{text})" if operand.neg else text
        if kind != "b32":
            raise Refused(f"a sign on {operand.text} is not modelled")
        text = f"({text} & 0x7fffffff)" if operand.abs else text
        return f"({text} ^ 0x80000000)" if operand.neg else text

    def _constant(self, operand: Operand, kind: str) -> str:
        return self.constant(NUMPY[TYPES[kind][1]](constant_value(operand, kind)))

    def read_mask(self, operand: Operand) -> str:
        """A lane mask as bool (waves, lanes)."""
        if operand.kind == "c":
            if operand.value not in (0, -1):
                raise Refused(f"a mask that is {operand.text}")
            return f"full((1, {self.gen.wave}), {operand.value != 0})"
        if operand.kind != "s" or operand.count != self.gen.wave // 32:
            raise Refused(f"a mask that is {operand.text}")
        self.note_read(operand)
        row = operand.index
        if row not in self.masks:
            both = f"S[{row}]" if self.gen.wave == 32 else f"S[{row}], S[{row + 1}]"
            self.masks[row] = self.local(f"lanes{self.gen.wave}({both})")
        return self.masks[row]

    def write_mask(self, operand: Operand, lanes: str) -> None:
        """Write a lane mask: 0 where a lane takes no part."""
        if operand.kind != "s" or (operand.index != NULL and operand.count * 32 != self.gen.wave):
            raise Refused(f"a mask that is {operand.text}")
        if operand.index == NULL:
            return
        self.note_write(operand)
        lanes = lanes if self.mode == "full" else f"({lanes}) & X"
        kept = self.local(f"lane_shape(st, {lanes})")
        if self.gen.wave == 32:
            self._scalar_line(operand.index, f"bits32({kept})")
        else:
            words = self.local(f"bits64({kept})")
            self._scalar_line(operand.index, f"{words}[:, 0]")
            self._scalar_line(operand.index + 1, f"{words}[:, 1]")
        if operand.index != EXEC:
            self.masks[operand.index] = kept

    def write(
        self, operand: Operand, kind: str, value: str, half: int = 0, where: str = ""
    ) -> None:
        """Write a lane result, in the lanes that take part (and are in `where`)."""
        if kind == "mask":
            self.write_mask(operand, value)
            return
        letter, _, bits = TYPES[kind]
        if operand.kind not in "va" or operand.neg or operand.abs:
            raise Refused(f"a result in {operand.text}")
        if (bits == 64 and operand.count != 2) or (bits != 64 and operand.count != 1):
            raise Refused(f"operand {operand.text} has the wrong size")
        row = vector_row(operand)
        half = operand.half if operand.half is not None else half
        whole = bits != 16 or (self.gen.zeroes_high and operand.half is None and not half)
        self.note_write(operand, None if whole else half)
        if kind == "f32" and not self.denormals:
            value = f"flush({value})"
        if bits == 64:
            both = self.local(value)
            self.store(f"U[{row}]", f"low_word(wide(st, {both}))", where)
            self.store(f"U[{row + 1}]", f"high_word(wide(st, {both}))", where)
        elif bits == 32:
            self.store(f"{letter}[{row}]", value, where)
        elif whole:
            self.store(f"U[{row}]", f"as_type(asarray({value}), u16)", where)
        else:
            self.store(f"{'h' if half else 'l'}{letter}[{row}]", value, where)

    def store(self, place: str, value: str, where: str = "") -> None:
        """Assign to a register row under the mode's mask."""
        if self.mode == "full" and not where:
            self.line(f"{place}[...] = {value}")
            return
        mask = "X" if not where else where if self.mode == "full" else f"X & {where}"
        self.line(f"copyto({place}, {value}, 'unsafe', {mask})")

    # ---- scalar operands
    def read_scalar(self, operand: Operand, kind: str) -> str:
        """An expression for an operand of a scalar instruction, (waves,)."""
        if operand.neg or operand.abs or operand.sext:
            raise Refused(f"a sign on {operand.text} is not modelled")
        if operand.kind == "c":
            return f"st.scalar({self._constant(operand, kind)})"
        if operand.kind == "w" and operand.text in ("scc", "src_scc"):
            return "st.scc.astype(u32)"
        if operand.kind != "s":
            raise Refused(f"operand {operand.text} is not modelled")
        _, name, bits = TYPES[kind]
        if operand.count != max(1, bits // 32):
            raise Refused(f"operand {operand.text} has the wrong size")
        self.note_read(operand)
        if operand.index == NULL:
            return f"st.scalar({name}(0))"
        if bits == 64:
            text = f"pair(S[{operand.index}], S[{operand.index + 1}])"
        else:
            text = f"S[{operand.index}]"
        return text if name in ("u32", "u64") else f"{text}.view({name})"

    def write_scalar(self, operand: Operand, kind: str, value: str) -> None:
        """Write a scalar result, (waves,)."""
        if operand.kind != "s":
            raise Refused(f"a result in {operand.text}")
        _, name, bits = TYPES[kind]
        if operand.index == NULL:
            return
        if operand.count != max(1, bits // 32):
            raise Refused(f"operand {operand.text} has the wrong size")
        self.note_write(operand)
        if bits == 64:
            both = self.local(f"ascontiguousarray({value}).view(u32)")
            self._scalar_line(operand.index, f"{both}[0::2]")
            self._scalar_line(operand.index + 1, f"{both}[1::2]")
        else:
            value = value if name == "u32" else f"as_type(asarray({value}, {name}), u32)"
            self._scalar_line(operand.index, value)

    def _scalar_line(self, row: int, value: str) -> None:
        if self.mode == "part":
            self.line(f"copyto(S[{row}], {value}, where=act)")
        else:
            self.line(f"S[{row}][...] = {value}")

    def write_scc(self, value: str) -> None:
        """Set the scalar condition code, bool (waves,)."""
        self.line(
            f"st.scc = where(act, {value}, st.scc)" if self.mode == "part" else f"st.scc = {value}"
        )

    # ---- rows of the table
    def lane_row(self, row: Row) -> None:
        self.approximate |= {row.mnemonic} if row.approximate else set()
        targets = [self.take() for _ in row.writes]
        opsel = self.bits("op_sel", [])
        names: dict[str, str] = {}
        where = ""
        for at, kind in enumerate(row.reads):
            if kind == "mask" and not self.operands:
                operand = Operand("s", "vcc", VCC, self.gen.wave // 32)
            else:
                operand = self.take()
            text, where = self._lane_source(operand, kind, at, opsel, where)
            names["abc"[at]] = text
            if kind in ("u64", "i64"):
                self._note_spare(row, targets[0], operand)
        used = " ".join(row.results)
        high = opsel[len(row.reads)] if len(opsel) > len(row.reads) else 0
        if re.search(r"\bd\b", used):
            names["d"] = self.read(targets[0], row.writes[0], high)
        if re.search(r"\bvcc\b", used):
            names["vcc"] = self.read_mask(Operand("s", "vcc", VCC, self.gen.wave // 32))
        self._finish_row(row, targets, names, where, high)

    def _lane_source(
        self, operand: Operand, kind: str, at: int, opsel: list[int], where: str
    ) -> tuple[str, str]:
        select = self.modifiers.pop(f"src{at}_sel", "DWORD")
        high = opsel[at] if at < len(opsel) else 0
        if high and TYPES.get(kind, ("", "", 0))[2] != 16:
            raise Refused("op_sel on an operand that is not 16 bits")
        if select != "DWORD" or operand.sext:
            return self._part(operand, kind, select), where
        text = self.read(operand, kind, high)
        if at == 0 and self.dpp is not None:
            return self._permuted(text)
        return text, where

    def _part(self, operand: Operand, kind: str, select: str) -> str:
        """SDWA: a byte or a word of the operand."""
        plain = Operand(operand.kind, operand.text, operand.index, operand.count)
        source = self.read(plain, "u32")
        unit, _, at = select.partition("_")
        if unit not in ("BYTE", "WORD") or kind not in ("u32", "i32", "b32", "f32", "u16", "f16"):
            raise Refused(f"selector {select} is not modelled here")
        bits = 8 if unit == "BYTE" else 16
        if kind in ("f32", "f16") and bits == 8:
            raise Refused(f"selector {select} is not modelled here")
        part = f"(({source} >> {int(at) * bits}) & {(1 << bits) - 1})"
        if operand.sext:
            part = f"{part}.astype(u{bits}).view(i{bits}).astype(i32).view(u32)"
        if kind == "i32":
            part = f"{part}.view(i32)"
        elif kind in ("u16", "f16"):
            part = f"{part}.astype(u16).view({kind})"
        return self._signed(part, operand, kind)

    def _permuted(self, text: str) -> tuple[str, str]:
        """DPP: the first operand as other lanes hold it, and the lanes that are written."""
        dpp, self.dpp = self.dpp, None
        index = self.constant(dpp.index)
        source = self.local(f"lane_shape(st, {text})[:, {index}]")
        inside = self.constant(dpp.inside)
        valid = inside
        if self.mode != "full" and not dpp.any_lane:
            valid = self.local(f"{inside} & X[:, {index}]")
        if not dpp.inside.all() or valid != inside:
            source = self.local(f"where({valid}, {source}, {source}.dtype.type(0))")
        enabled = self.constant(dpp.enabled)
        if dpp.zero_invalid:
            return source, "" if dpp.enabled.all() else enabled
        if dpp.enabled.all() and dpp.inside.all() and valid == inside:
            return source, ""
        return source, f"({valid} & {enabled})"

    def _finish_row(
        self, row: Row, targets: list[Operand], names: dict[str, str], where: str, high: int
    ) -> None:
        clamp = self.flag("clamp")
        scale = self._output_scale()
        placed = self._destination_part(row, targets)
        simple = _SIMPLE.match(row.results[0])
        plain = not (clamp or scale or placed or where or not self.denormals)
        if simple and plain and len(targets) == 1 and TYPES[row.writes[0]][2] == 32:
            self._ufunc(simple, row.writes[0], targets[0], names)
            return
        used = " ".join(row.results)
        for name, text in names.items():
            many = len(re.findall(rf"\b{name}\b", used)) > 1
            if "(" in text and many:
                names[name] = self.local(text)
        values = []
        for result in row.results:
            text = _NAME.sub(lambda found: names[found[0]], result)
            values.append(self.local(text) if len(row.results) > 1 else text)
        for target, kind, value in zip(targets, row.writes, values, strict=True):
            if clamp and kind != "mask":
                if kind[0] != "f":
                    raise Refused("clamp is not modelled here")
                value = f"clip01({value})"
            value = f"({value}) * {TYPES[kind][1]}({scale})" if scale else value
            value = placed.format(value) if placed and kind != "mask" else value
            self.write(target, kind, value, high, where if kind != "mask" else "")

    def _destination_part(self, row: Row, targets: list[Operand]) -> str:
        """SDWA: how the result is put into a byte or a word of the destination, or ""."""
        select = self.modifiers.pop("dst_sel", "DWORD")
        unused = self.modifiers.pop("dst_unused", "UNUSED_PAD")
        if select == "DWORD":
            return ""
        unit, _, at = select.partition("_")
        kind = row.writes[0]
        if kind not in ("u32", "b32", "i32") or unit not in ("BYTE", "WORD"):
            raise Refused(f"dst_sel {select} is not modelled here")
        mask, shift = (255, 8 * int(at)) if unit == "BYTE" else (65535, 16 * int(at))
        name = TYPES[kind][1]
        bits = f"((as_type(asarray({{}}), u32) & u32({mask})) << u32({shift}))"
        if unused == "UNUSED_PRESERVE":
            old = self.read(targets[0], "u32")
            bits = f"({bits} | ({old} & u32({~(mask << shift) & 0xFFFFFFFF})))"
        elif unused != "UNUSED_PAD":
            raise Refused(f"dst_unused {unused} is not modelled")
        return bits if name == "u32" else f"as_type({bits}, {name})"

    def _note_spare(self, row: Row, target: Operand, addend: Operand) -> None:
        """The high word of a 64-bit addend matters to the high word of the sum alone."""
        if row.mnemonic.startswith(("v_mad_u64", "v_mad_i64")) and addend.kind in "va":
            self.effect.facts["spare"] = 3 << 2 * (vector_row(addend) + 1)
            self.effect.facts["spare_result"] = 3 << 2 * (vector_row(target) + 1)

    def _output_scale(self) -> float:
        times, over = self.modifiers.pop("mul", ""), self.modifiers.pop("div", "")
        return float(times) if times else 1 / float(over) if over else 0.0

    def _ufunc(
        self, simple: re.Match[str], kind: str, target: Operand, names: dict[str, str]
    ) -> None:
        """The plain operators write into the register without a copy."""
        if target.kind not in "va" or target.count != 1 or target.half is not None:
            raise Refused(f"a result in {target.text}")
        self.note_write(target)
        place = f"{TYPES[kind][0]}[{vector_row(target)}]"
        where = "" if self.mode == "full" else ", where=X"
        left, right = names[simple[1]], names[simple[3]]
        self.line(f"{_PLAIN[simple[2]]}({left}, {right}, {place}{where})")

    def _scalar_row(self, row: Row) -> None:
        targets = [None if kind == "scc" else self.take() for kind in row.writes]
        names = {}
        if re.search(r"\bd\b", " ".join(row.results)) and targets[0] is not None:
            names["d"] = self.read_scalar(targets[0], row.writes[0])
        for at, kind in enumerate(row.reads):
            names["abc"[at]] = self.read_scalar(self.take(), kind)
        for name in names:
            names[name] = self.local(names[name]) if "(" in names[name] else names[name]
        values = [_NAME.sub(lambda found: names[found[0]], text) for text in row.results]
        if len(values) > 1:
            first = self.local(values[0])
            values = [first, *(re.sub(r"\br\b", first, value) for value in values[1:])]
        if len(values) > 1 and row.writes[1] == "scc":  # the condition may need old registers
            values[1] = self.local(values[1])
        for target, kind, value in zip(targets, row.writes, values, strict=True):
            if target is None:
                self.write_scc(value)
            else:
                self.write_scalar(target, kind, value)


def vector_row(operand: Operand) -> int:
    """The row of a vector register; accumulation registers follow the others."""
    return operand.index + (AGPR if operand.kind == "a" else 0)


def vector_bits(operand: Operand, half: int | None) -> int:
    """Two bits for each register that the operand names, or one for one half."""
    row = vector_row(operand)
    if half is None:
        return ((1 << 2 * operand.count) - 1) << 2 * row
    return 1 << (2 * row + half)


def constant_value(operand: Operand, kind: str) -> int | float:
    """A constant as the type sees it. Floats stand for their own bits; integers are raw bits."""
    _, name, bits = TYPES[kind]
    value = operand.value
    if operand.text.lstrip("-").startswith("0.15915494"):
        value = math.copysign(1 / (2 * math.pi), value)
    raw: int
    if isinstance(value, float):
        code = {16: "<e", 32: "<f", 64: "<d"}[bits]
        raw = int.from_bytes(struct.pack(code, value), "little")
    else:
        raw = value & ((1 << bits) - 1)
        if bits == 64 and operand.text.lstrip("-").startswith("0x") and name == "f64":
            raw = (value & 0xFFFFFFFF) << 32  # a literal is the high half of an f64
    if name[0] == "f":
        code = {16: "<e", 32: "<f", 64: "<d"}[bits]
        real: float = struct.unpack(code, raw.to_bytes(bits // 8, "little"))[0]
        if operand.abs:
            real = abs(real)
        return -real if operand.neg else real
    if operand.neg or operand.abs:
        if kind != "b32":
            raise Refused(f"a sign on {operand.text} is not modelled")
        raw = raw & 0x7FFFFFFF if operand.abs else raw
        raw = raw ^ 0x80000000 if operand.neg else raw
    if name[0] == "i" and raw >> (bits - 1):
        raw -= 1 << bits
    return raw
