"""Reads of registers that were never written."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from reefwatch.isa.observers.path import Complaint, PathObserver, registers
from reefwatch.isa.text import EXEC, M0, NULL, TTMP, VCC

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Block, Translation
    from reefwatch.isa.state import State


class UninitialisedRegisters(PathObserver):
    """Reports a read of a vector register no write of which had a lane taking part."""

    kind = "uninitialised register"
    follows_exec = True

    def initial(self, st: State, translation: Translation) -> Hashable:
        """What the hardware sets before a wave starts."""
        descriptor = translation.program.descriptor
        users = descriptor.get("user_sgpr_count", 2) + 4
        scalar = (1 << users) - 1 | 3 << EXEC | 1 << NULL | 1 << M0
        scalar |= ((1 << 12) - 1) << TTMP
        scalar |= 3 << VCC
        return (3, scalar)

    def step(self, state: Any, block: Block, alive: bool, complain: list[Complaint]) -> Hashable:
        """Follow reads and writes; with no lane taking part nothing is read or written."""
        vector, scalar = state
        for effect in block.effects:
            lives = alive or "any_lane" in effect.facts
            spare = effect.facts.get("spare", 0) & ~vector  # touches only the high result
            fresh = _unwritten(effect.reads & ~spare, vector) if lives else 0
            fresh_scalar = effect.scalar_reads & ~scalar
            if fresh or fresh_scalar:
                names = registers(fresh, fresh_scalar)
                complain.append((effect.instruction, f"{names} read before any write"))
                vector |= fresh
                scalar |= fresh_scalar
            if alive or effect.kind == "matrix" or effect.instruction.base == "v_writelane_b32":
                vector |= effect.writes
                if spare:
                    vector &= ~effect.facts["spare_result"]
            scalar |= effect.scalar_writes
        return (vector, scalar)


_LOW = int("01" * 512, 2)  # the low half of every register


def _unwritten(reads: int, written: int) -> int:
    """Halves read in vain. Of a register read whole, one written half is enough.

    Where only 16 bits are wanted compilers load one half and shift or mask the other away.
    """
    missing = reads & ~written
    whole = reads & reads >> 1 & _LOW
    lost = missing & missing >> 1 & whole
    return (lost | lost << 1) | missing & ~(whole | whole << 1)
