"""gfx9: distances that the compiler, not the hardware, must keep between instructions.

Numbers from the CDNA3 ISA guide ("Manually inserted wait states") as LLVM's hazard recogniser
applies them to gfx940 and later. One instruction is one wait state, `s_nop N` is N + 1. Only
straight runs between labels and branches are looked at.
"""

from __future__ import annotations

import re

from reefwatch.isa.blocks import Translation
from reefwatch.isa.emit import Effect
from reefwatch.isa.ops.matrix import Matrix
from reefwatch.isa.scan.finding import Found, at
from reefwatch.isa.text import EXEC, VCC

FAR = 24
_PASSES = {  # of matrix instructions: shape and type -> passes of four cycles
    ("32x32x8", "f16"): 8, ("32x32x8", "bf16"): 8, ("16x16x16", "f16"): 4,
    ("16x16x16", "bf16"): 4, ("32x32x4", "xf32"): 8, ("16x16x8", "xf32"): 4,
    ("32x32x16", "i8"): 8, ("16x16x32", "i8"): 4, ("32x32x16", "fp8"): 8, ("32x32x16", "bf8"): 8,
    ("16x16x32", "fp8"): 4, ("16x16x32", "bf8"): 4,
    ("32x32x2", "f32"): 16, ("16x16x4", "f32"): 8,
}  # fmt: skip


def software_waits(translation: Translation) -> list[Found]:
    """Pairs of instructions that stand too near; the first such pair of each instruction."""
    found = []
    for block in translation.blocks:
        recent: list[tuple[int, Effect]] = []  # (wait states since, earlier instruction)
        for effect in block.effects:
            problem = _too_near(effect, recent)
            if problem:
                found.append(at("software wait", problem, effect.instruction))
            step = _states(effect)
            recent = [(n + step, e) for n, e in recent if n + step <= FAR]
            if effect.writes or effect.scalar_writes:
                recent.append((0, effect))
    return found


def _states(effect: Effect) -> int:
    nop = re.match(r"s_nop (\w+)", effect.instruction.text)
    return int(nop[1], 0) + 1 if nop else 1


def _is_vector(effect: Effect) -> bool:
    return effect.instruction.mnemonic.startswith("v_")


def _too_near(effect: Effect, recent: list[tuple[int, Effect]]) -> str:
    for distance, earlier in recent:
        need, why = _needed(earlier, effect)
        if distance < need:
            return f"{why}: {need} wait states are needed, {distance} are there"
    return ""


def _needed(earlier: Effect, later: Effect) -> tuple[int, str]:
    """Wait states between two instructions, 0 when they are independent."""
    if earlier.kind == "matrix":
        return _after_matrix(earlier, later)
    if not _is_vector(earlier):
        return 0, ""
    name = later.instruction.base
    scalars = earlier.scalar_writes
    if later.kind == "memory" and scalars & later.scalar_reads:
        return 5, "a vector instruction writes a scalar that a memory instruction reads"
    if name in ("v_readlane_b32", "v_writelane_b32") and scalars & later.scalar_reads:
        return 4, "a vector instruction writes the lane number"
    if name.startswith("v_div_fmas") and scalars & 3 << VCC:
        return 4, "a vector instruction writes VCC before v_div_fmas"
    if later.instruction.mnemonic.endswith("dpp"):
        if scalars & 3 << EXEC:
            return 5, "a vector instruction writes EXEC before DPP"
        source = 0
        for operand in later.instruction.operands[1:2]:
            if operand.kind == "v":
                source = 3 << 2 * operand.index
        if earlier.writes & source:
            return 2, "a vector instruction writes what DPP reads from other lanes"
    return 0, ""


def _after_matrix(earlier: Effect, later: Effect) -> tuple[int, str]:
    matrix = earlier.access
    assert isinstance(matrix, Matrix)
    passes = _passes(matrix)
    plain = matrix.kinds[0] == "f32"  # not on the fast path: one state less
    if later.kind == "matrix":
        other = later.access
        inputs = ((1 << 2 * other.width) - 1) << 2 * other.a
        inputs |= ((1 << 2 * other.width) - 1) << 2 * other.b
        if earlier.writes & inputs:
            return passes + (2 if plain else 3), "a matrix result is read as A or B"
        return 0, ""
    if later.kind != "memory" and not _is_vector(later):
        return 0, ""
    if earlier.writes & (later.reads | (later.writes if _is_vector(later) else 0)):
        return passes + (2 if plain else 3), "a matrix result is used"
    return 0, ""


def _passes(matrix: Matrix) -> int:
    shape = f"{matrix.rows}x{matrix.rows}x{matrix.depth}"
    return _PASSES.get((shape, matrix.kinds[0]), 0)
