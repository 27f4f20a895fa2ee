"""Missing waits: a register used, or overwritten, while a load into it is under way."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from reefwatch.isa.observers.path import Complaint, PathObserver, registers
from reefwatch.isa.text import SCALARS

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Block, Translation
    from reefwatch.isa.emit import Effect
    from reefwatch.isa.state import State

LONGEST = 64  # operations that a counter can count


class Pending(NamedTuple):
    """One operation under way: the registers it will write, and whether it returns in order."""

    vector: int
    scalar: int
    ordered: bool


Queues = tuple[tuple[str, tuple[Pending, ...]], ...]


def issued(effect: Effect) -> list[tuple[str, Pending]]:
    """What an instruction sends on its way, by counter."""
    mixed = len(effect.issues) > 1  # flat: memory or LDS, whichever it turns out to be
    return [
        (counter, Pending(vector, scalar, not scalar and not mixed))
        for counter, vector, scalar in effect.issues
    ]


def waited(queue: tuple[Pending, ...], limit: int) -> tuple[Pending, ...]:
    """What may still be under way once at most `limit` operations are.

    Scalar loads return in any order: only a wait for none retires them, and what is counted with
    them.
    """
    if len(queue) <= limit:
        return queue
    if limit == 0:
        return ()
    if all(pending.ordered for pending in queue):
        return queue[-limit:]
    return queue


def _union(queues: dict[str, tuple[Pending, ...]]) -> int:
    """Every register that something under way will write."""
    busy = 0
    for queue in queues.values():
        for pending in queue:
            busy |= pending.vector << SCALARS | pending.scalar
    return busy


def _touched(effect: Effect) -> int:
    vector = effect.reads | effect.writes
    return vector << SCALARS | effect.scalar_reads | effect.scalar_writes


class Waits(PathObserver):
    """Reports a missing or too weak wait."""

    kind = "missing wait"

    def initial(self, st: State, translation: Translation) -> Hashable:
        """Nothing is under way."""
        return ()

    def step(self, state: Any, block: Block, alive: bool, complain: list[Complaint]) -> Hashable:
        """Follow every operation of the block."""
        queues: dict[str, tuple[Pending, ...]] = dict(state)
        busy = _union(queues)
        for effect in block.effects:
            if busy & _touched(effect):
                self._check(effect, queues, complain)
                busy = _union(queues)
            for counter, limit in effect.waits:
                if counter in queues:
                    queues[counter] = waited(queues[counter], limit)
                    if not queues[counter]:
                        del queues[counter]
                    busy = _union(queues)
            for counter, pending in issued(effect) if effect.issues else ():
                queues[counter] = (*queues.get(counter, ()), pending)[-LONGEST:]
                busy |= pending.vector << SCALARS | pending.scalar
        return tuple(sorted(queues.items()))

    def _check(
        self, effect: Effect, queues: dict[str, tuple[Pending, ...]], complain: list[Complaint]
    ) -> None:
        mine = {counter for counter, _ in issued(effect)}
        for counter, queue in queues.items():
            vector = scalar = lost = lost_scalar = 0
            # a load into a half that an earlier load of the whole register will write
            reads = effect.reads | effect.facts.get("half", 0)
            for pending in queue:
                vector |= pending.vector & reads
                scalar |= pending.scalar & effect.scalar_reads
                if not (pending.ordered and counter in mine):
                    lost |= pending.vector & effect.writes
                    lost_scalar |= pending.scalar & effect.scalar_writes
            if vector or scalar:
                names = registers(vector, scalar)
                complain.append((effect.instruction, f"{names} used while a load is under way"))
            elif lost or lost_scalar:
                names = registers(lost, lost_scalar)
                complain.append(
                    (effect.instruction, f"{names} overwritten while a load is under way")
                )
            else:
                continue
            gone = vector | lost
            queues[counter] = tuple(
                Pending(p.vector & ~gone, p.scalar & ~(scalar | lost_scalar), p.ordered)
                for p in queue
            )
