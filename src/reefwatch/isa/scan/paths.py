"""Missing waits on any path, run or not: the observer's rules over the flow graph.

Where paths meet, what may be under way is the union of what each brings, counted from the newest:
the rule by which compilers place waits, so that correct code has no finding.
"""

from __future__ import annotations

from itertools import zip_longest

from reefwatch.isa.blocks import Block, Translation
from reefwatch.isa.flow import successors
from reefwatch.isa.observers.path import Complaint
from reefwatch.isa.observers.waits import Pending, Queues, Waits
from reefwatch.isa.scan.finding import Found, at

_NONE = Pending(0, 0, True)


def missing_waits(translation: Translation) -> list[Found]:
    """Registers used or overwritten while a load into them may be under way."""
    blocks = translation.blocks
    follow = Waits()
    before: dict[int, Queues] = {0: ()}
    todo = [0]
    while todo:
        index = todo.pop(0)
        after = follow.step(before[index], blocks[index], True, [])
        for to in successors(blocks[index], len(blocks)):
            known = before.get(to)
            merged = after if known is None else _merge(known, after)
            if merged != known:
                before[to] = merged  # type: ignore[assignment]
                if to not in todo:
                    todo.append(to)
    return _complaints(follow, blocks, before)


def _complaints(follow: Waits, blocks: list[Block], before: dict[int, Queues]) -> list[Found]:
    found: dict[int, Found] = {}
    for index, state in before.items():
        wrong: list[Complaint] = []
        follow.step(state, blocks[index], True, wrong)
        for instruction, message in wrong:
            found.setdefault(instruction.line, at("missing wait on a path", message, instruction))
    return list(found.values())


def _merge(one: Queues, two: object) -> Queues:
    """The union of two states."""
    left, right = dict(one), dict(two)  # type: ignore[call-overload]
    return tuple(
        (counter, _merge_queues(left.get(counter, ()), right.get(counter, ())))
        for counter in sorted({*left, *right})
    )


def _merge_queues(one: tuple[Pending, ...], two: tuple[Pending, ...]) -> tuple[Pending, ...]:
    pairs = zip_longest(reversed(one), reversed(two), fillvalue=_NONE)
    return tuple(
        Pending(a.vector | b.vector, a.scalar | b.scalar, a.ordered and b.ordered)
        for a, b in reversed(list(pairs))
    )
