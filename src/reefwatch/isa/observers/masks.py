"""EXEC saved and never put back: the lanes that were switched off stay off."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from reefwatch.isa.flow import live_scalars, reachable, successors
from reefwatch.isa.observers.path import Complaint, PathObserver

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Block, Translation
    from reefwatch.isa.state import State
    from reefwatch.isa.text import Instruction


class LostMasks(PathObserver):
    """Reports a saved EXEC that is not read again though the program goes on, and what that does.

    A compiler leaves a saved mask unread only where nothing but the end lies beyond the part that
    the mask guards. A barrier is reached with all lanes on.
    """

    kind = "EXEC not restored"

    def initial(self, st: State, translation: Translation) -> Hashable:
        """Nothing is saved."""
        key = f"saves {translation.generation.name}"
        cache = translation.program.cache
        if key not in cache:
            cache[key] = _Saves(translation.blocks)
        saves = cache[key]
        assert isinstance(saves, _Saves)
        self.saves = saves
        return ()

    def block(self, st: State, block: Block) -> None:
        """Besides the path: a barrier with lanes missing."""
        if block.kind in ("barrier", "signal") and not st.full and not st.X[st.act].all():
            instruction = block.effects[-1].instruction
            st.observers.report(st, self.kind, instruction, "a barrier with some lanes off")
        super().block(st, block)

    def step(self, state: Any, block: Block, alive: bool, complain: list[Complaint]) -> Hashable:
        """Saves are kept as a stack; reading one closes it and those inside it."""
        stack: list[tuple[int, int]] = list(state)
        for effect in block.effects:
            for at, (register, _) in enumerate(stack):
                if effect.scalar_reads >> register & 1:
                    del stack[at:]
                    break
            saved = effect.facts.get("saves_exec")
            if saved is None:
                continue
            line = effect.instruction.line
            for register, lost in stack:
                if register == saved and lost in self.saves.more_follows and lost != line:
                    complain.append((self.saves.more_follows[lost], _MESSAGE))
            stack = [entry for entry in stack if entry[0] != saved]
            stack.append((saved, line))
            if line in self.saves.dead:
                complain.append((effect.instruction, _MESSAGE))
        return tuple(stack[-8:])


_MESSAGE = "EXEC is saved here and not put back"


class _Saves:
    """What is known of a program's saves without running it, by line of the text."""

    def __init__(self, blocks: list[Block]) -> None:
        self.more_follows: dict[int, Instruction] = {}
        self.dead: set[int] = set()
        live = live_scalars(blocks)
        for block in blocks:
            alive = 0
            for after in successors(block, len(blocks)):
                alive |= live[after]
            for effect in reversed(block.effects):
                saved = effect.facts.get("saves_exec")
                if saved is not None and _work_follows(blocks, block):
                    line = effect.instruction.line
                    self.more_follows[line] = effect.instruction
                    if not alive >> saved & 1:
                        self.dead.add(line)
                alive = alive & ~effect.scalar_writes | effect.scalar_reads


def _join(blocks: list[Block], block: Block) -> int | None:
    """The block after the part that a save at the end of `block` guards, where the text tells."""
    if block.index + 1 >= len(blocks):
        return None
    after = blocks[block.index + 1]
    if len(after.effects) > 2 or after.when not in ("execz", "execnz"):
        return None
    return after.target if after.when == "execz" else after.index + 1


def _work_follows(blocks: list[Block], block: Block) -> bool:
    """Does anything but the end come after the part of the program that the mask guards?"""
    join = _join(blocks, block)
    for at in reachable(blocks, block.index + 1 if join is None else join):
        for effect in blocks[at].effects:
            if effect.kind in ("barrier", "matrix", "signal"):
                return True
            if join is not None and (effect.writes or effect.kind == "memory"):
                return True
    return False
