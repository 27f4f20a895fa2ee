"""Matrix instructions: WMMA of gfx11 and gfx12, MFMA of gfx9.

A layout says which lane and element of a register range holds which entry of a matrix. Sources:
the RDNA3, RDNA4 and CDNA3 ISA guides; checked against AMD's matrix instruction calculator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reefwatch.isa.emit import Emitter, Refused, vector_row
from reefwatch.isa.table import TABLE
from reefwatch.isa.text import Instruction, Operand

#: element type -> bits
BITS = {"f16": 16, "bf16": 16, "iu8": 8, "i8": 8, "u8": 8, "f32": 32, "xf32": 32,
        "fp8": 8, "bf8": 8}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Matrix:
    """One matrix instruction, resolved: D = A * B + C."""

    instruction: Instruction
    rows: int  # of A and D; B and D have as many columns
    depth: int  # columns of A, rows of B
    kinds: tuple[str, str]
    total: str  # type of C and D
    a: int
    b: int
    c: int | None
    c_value: float
    d: int
    width: int  # registers of A and of B
    height: int  # registers of C and D
    replicated: bool  # gfx11: the upper lanes must repeat the lower ones
    interleaved: bool  # gfx11: rows alternate between the lane halves
    signed: tuple[bool, bool] = (True, True)
    clamp: bool = False
    negate_c: bool = False


def _sources(emit: Emitter, width: int, height: int) -> tuple[Operand, Operand, Operand, Operand]:
    target, a, b, c = emit.take(), emit.take(), emit.take(), emit.take()
    for operand, count in ((target, height), (a, width), (b, width)):
        if operand.kind not in "va" or operand.count != count or operand.neg or operand.abs:
            raise Refused(f"operand {operand.text} has the wrong size")
        emit.note_read(operand) if operand is not target else None
    if c.kind != "c":
        if c.kind not in "va" or c.count != height:
            raise Refused(f"operand {c.text} has the wrong size")
        emit.note_read(c)
    elif c.value not in (0, 0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 4.0, -4.0):
        raise Refused(f"operand {c.text} is not modelled")
    emit.note_write(target)
    return target, a, b, c


def _emit(emit: Emitter, matrix: Matrix) -> None:
    emit.effect.kind = "matrix"
    emit.effect.access = matrix
    emit.approximate.add(emit.instruction.base)
    emit.line(f"multiply_matrices(st, {emit.constant(matrix)})")


def _wmma(emit: Emitter) -> None:
    found = re.match(r"v_wmma_(\w+?)_16x16x(\d+)_(\w+)$", emit.instruction.base)
    if not found:
        raise Refused("unknown mnemonic")
    total, depth = found[1], int(found[2])
    kinds = found[3].split("_")
    kinds = kinds * 2 if len(kinds) == 1 else kinds
    old = emit.gen.name == "gfx11"
    bits = BITS.get(kinds[0], 0)
    if not bits or total not in ("f32", "i32") or emit.gen.wave != 32:
        raise Refused("this matrix type is not modelled")
    width = depth * bits // 32 // (1 if old else 2)
    signs = emit.bits("neg_lo", [0, 0, 0])
    if kinds[0] != "iu8" and any(signs):
        raise Refused("a sign on a matrix is not modelled")
    target, a, b, c = _sources(emit, width, 8)
    clamp = emit.flag("clamp")
    if clamp and total != "i32":
        raise Refused("clamp is not modelled here")
    _emit(emit, Matrix(
        emit.instruction, 16, depth, (kinds[0], kinds[1]), total, vector_row(a), vector_row(b),
        None if c.kind == "c" else vector_row(c), float(c.value), vector_row(target), width, 8,
        replicated=old, interleaved=old, signed=(bool(signs[0]), bool(signs[1])), clamp=clamp,
    ))  # fmt: skip


def _mfma(emit: Emitter) -> None:
    found = re.match(r"v_mfma_(\w+?)_(32x32|16x16)x(\d+)_?(\w+?)(?:_1k)?$", emit.instruction.base)
    if not found:
        raise Refused("unknown mnemonic")
    rows, depth = int(found[2][:2]), int(found[3])
    kinds = found[4].split("_")
    kinds = kinds * 2 if len(kinds) == 1 else kinds
    bits = BITS.get(kinds[0], 0)
    groups = 64 // rows
    if not bits or found[1] not in ("f32", "i32") or depth * bits % (groups * 32):
        raise Refused("this matrix type is not modelled")
    if depth * bits // groups not in (32, 64, 128):
        raise Refused("this matrix type is not modelled")
    width, height = depth * bits // groups // 32, rows * rows // 64
    target, a, b, c = _sources(emit, width, height)
    _emit(emit, Matrix(
        emit.instruction, rows, depth, (kinds[0], kinds[1]), found[1], vector_row(a),
        vector_row(b), None if c.kind == "c" else vector_row(c), float(c.value),
        vector_row(target), width, height, replicated=False, interleaved=False,
    ))  # fmt: skip


for _kind in ("f16", "bf16", "fp8_fp8", "fp8_bf8", "bf8_fp8", "bf8_bf8"):
    TABLE.special(f"v_wmma_f32_16x16x16_{_kind}")(_wmma)
TABLE.special("v_wmma_i32_16x16x16_iu8")(_wmma)
_SHAPES = [
    ("f32", "32x32x8", "f16"), ("f32", "16x16x16", "f16"),
    ("f32", "32x32x8", "bf16"), ("f32", "16x16x16", "bf16"),
    ("f32", "32x32x8", "bf16_1k"), ("f32", "16x16x16", "bf16_1k"),
    ("f32", "32x32x4", "xf32"), ("f32", "16x16x8", "xf32"),
    ("f32", "32x32x2", "f32"), ("f32", "16x16x4", "f32"),
    ("i32", "32x32x16", "i8"), ("i32", "16x16x32", "i8"),
    *(("f32", shape, f"{left}_{right}") for shape in ("32x32x16", "16x16x32")
      for left in ("fp8", "bf8") for right in ("fp8", "bf8")),
]  # fmt: skip
for _total, _shape, _kind in _SHAPES:
    TABLE.special(f"v_mfma_{_total}_{_shape}_{_kind}")(_mfma)
for _old in ("32x32x2f32", "16x16x4f32", "32x32x8f16", "16x16x16f16"):
    TABLE.special(f"v_mfma_f32_{_old}")(_mfma)
