"""EXEC saved and never put back: the lanes that were switched off stay off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reefwatch.isa.observers.base import Observer

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Block, Translation
    from reefwatch.isa.state import State


class LostMasks(Observer):
    """Reports a saved EXEC that no path reads again.

    A save that is dead tells of a restore that is missing, unless only the end of the program
    lies beyond the part that the mask guards.
    """

    kind = "EXEC not restored"

    def begin(self, st: State, translation: Translation) -> None:
        """Find the dead saves once per program."""
        cache = translation.program.cache
        key = f"dead saves {translation.generation.name}"
        if key not in cache:
            cache[key] = _dead_saves(translation.blocks)
        found: Any = cache[key]
        self.dead: dict[int, list[Any]] = found

    def block(self, st: State, block: Block) -> None:
        """Reported where the block runs."""
        for instruction in self.dead.get(block.index, ()):
            st.observers.report(st, self.kind, instruction, "EXEC is saved here and never put back")


def successors(block: Block, count: int) -> list[int]:
    """Blocks that may come next."""
    if block.kind == "end":
        return []
    after = [block.index + 1] if block.when != "branch" and block.index + 1 < count else []
    return [*after, block.target] if block.kind == "branch" else after


def _dead_saves(blocks: list[Block]) -> dict[int, list[Any]]:
    """Saves of EXEC whose register is not live afterwards, by block."""
    live = [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            alive = 0
            for after in successors(block, len(blocks)):
                alive |= live[after]
            for effect in reversed(block.effects):
                alive = alive & ~effect.scalar_writes | effect.scalar_reads
            if alive != live[block.index]:
                live[block.index] = alive
                changed = True
    dead: dict[int, list[Any]] = {}
    for block in blocks:
        alive = 0
        for after in successors(block, len(blocks)):
            alive |= live[after]
        for effect in reversed(block.effects):
            saved = effect.facts.get("saves_exec")
            lost = saved is not None and not alive >> saved & 1
            if lost and _work_follows(blocks, block):
                dead.setdefault(block.index, []).append(effect.instruction)
            alive = alive & ~effect.scalar_writes | effect.scalar_reads
    return dead


def _work_follows(blocks: list[Block], block: Block) -> bool:
    """Does anything but the end come after the part of the program that the mask guards?"""
    after = blocks[block.index + 1] if block.index + 1 < len(blocks) else None
    guarded = after is not None and after.when == "execz" and len(after.effects) <= 2
    start = after.target if guarded and after is not None else block.index + 1
    seen: set[int] = set()
    todo = [start]
    while todo:
        at = todo.pop()
        if at in seen or at >= len(blocks):
            continue
        seen.add(at)
        for effect in blocks[at].effects:
            if effect.kind in ("barrier", "matrix", "signal") or (guarded and effect.writes):
                return True
            if guarded and effect.kind == "memory":
                return True
        todo += successors(blocks[at], len(blocks))
    return False
