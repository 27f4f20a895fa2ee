"""The flow graph of a program's blocks."""

from __future__ import annotations

from reefwatch.isa.blocks import Block


def successors(block: Block, count: int) -> list[int]:
    """Blocks that may come next."""
    if block.kind == "end":
        return []
    after = [block.index + 1] if block.when != "branch" and block.index + 1 < count else []
    return [*after, block.target] if block.kind == "branch" else after


def reachable(blocks: list[Block], start: int) -> list[int]:
    """Blocks that may run from `start` on, itself among them."""
    seen: dict[int, None] = {}
    todo = [start]
    while todo:
        at = todo.pop()
        if at in seen or at >= len(blocks):
            continue
        seen[at] = None
        todo += successors(blocks[at], len(blocks))
    return list(seen)


def live_scalars(blocks: list[Block]) -> list[int]:
    """For each block the scalars, as bits, that may be read before they are written."""
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
    return live
