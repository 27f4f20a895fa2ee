"""Scalar loads."""

from __future__ import annotations

from reefwatch.isa.emit import Emitter, Refused
from reefwatch.isa.table import TABLE
from reefwatch.isa.text import NULL


@TABLE.special(*(f"s_load_b{bits}" for bits in (32, 64, 96, 128, 256, 512)))
def _load(emit: Emitter) -> None:
    """Words at base + offset, of each wave, into consecutive scalars."""
    words = int(emit.gen.canonical(emit.instruction)[8:]) // 32
    target, base, offset = emit.take(), emit.take(), emit.take()
    if target.kind != "s" or target.count != words or base.kind != "s":
        raise Refused(f"operand {target.text} has the wrong size")
    shift = emit.number("offset")
    where = emit.read_scalar(base, "u64")
    if offset.kind == "c":
        shift += int(offset.value)
    elif offset.index != NULL:
        where = f"{where} + {emit.read_scalar(offset, 'u32')}"
    for name in ("glc", "dlc"):
        emit.flag(name)
    emit.modifiers.pop("scope", "")
    emit.modifiers.pop("th", "")
    emit.note_write(target)
    at = emit.constant(emit.instruction)
    emit.line(f"scalar_load(st, {at}, {where}, {shift}, {target.index}, {words})")
    emit.effect.issues = ((emit.gen.counter("smem"), 0, emit.effect.scalar_writes),)
