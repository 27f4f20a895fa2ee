"""Observers whose knowledge of a wave depends only on the instructions that it has run.

Such knowledge is a small frozen state that a block turns into another. Each pair of block and
state is worked out once and remembered, so watching costs a look-up per block, not per instruction.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from reefwatch.isa.observers.base import Observer
from reefwatch.isa.text import Instruction

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Block, Translation
    from reefwatch.isa.state import State

Complaint = tuple[Instruction, str]


class _Memory:
    """States by number, and what a block makes of each."""

    def __init__(self) -> None:
        self.states: list[Hashable] = []
        self.number: dict[Hashable, int] = {}
        self.after: dict[tuple[int, int, bool], tuple[int, tuple[Complaint, ...]]] = {}


class PathObserver(Observer):
    """Keeps one state per wave; subclasses say how a block changes it."""

    follows_exec = False  # does it matter whether a wave has any lane that takes part?

    def __init__(self) -> None:
        self.memory = _Memory()
        self.same: int | None = 0  # the state of all waves, while it is one
        self.each: Any = None  # the state of each wave otherwise

    def initial(self, st: State, translation: Translation) -> Hashable:
        """The state of a fresh wave."""
        raise NotImplementedError

    def step(self, state: Any, block: Block, alive: bool, complain: list[Complaint]) -> Hashable:
        """The state after a block, and what is wrong in it."""
        raise NotImplementedError

    def begin(self, st: State, translation: Translation) -> None:
        """All waves start alike; what is known of the program's blocks stays with the program."""
        key = f"{self.kind} {translation.generation.name}"
        memory = translation.program.cache.setdefault(key, self.memory)
        assert isinstance(memory, _Memory)
        self.memory = memory
        self.same = self._number(self.initial(st, translation))
        self.each = None

    def _number(self, state: Hashable) -> int:
        memory = self.memory
        if state not in memory.number:
            memory.number[state] = len(memory.states)
            memory.states.append(state)
        return memory.number[state]

    def block(self, st: State, block: Block) -> None:
        """Move the active waves on."""
        if not block.effects:
            return
        alive: Any = True
        if self.follows_exec and not st.full:
            lanes: Any = st.X.any(axis=1)
            alive = bool(lanes[0]) if st.all_act and (lanes == lanes[0]).all() else lanes
        if self.same is not None and st.all_act and isinstance(alive, bool):
            self.same = self._after(st, block, self.same, alive, None)
            return
        if self.each is None:
            self.each = np.full(st.waves, self.same)
            self.same = None
        for number, lives, waves in self._kinds(st, alive):
            self.each[waves] = self._after(st, block, number, lives, waves)
        if st.all_act and (self.each == self.each[0]).all():
            self.same, self.each = int(self.each[0]), None

    def _kinds(self, st: State, alive: Any) -> Iterator[tuple[int, bool, Any]]:
        """The active waves by state and liveness."""
        keys = self.each * 2 + alive
        for key in np.unique(keys[st.act]):
            yield int(key) // 2, bool(key % 2), np.flatnonzero(st.act & (keys == key))

    def _after(self, st: State, block: Block, number: int, alive: bool, waves: Any) -> int:
        key = (block.index, number, alive)
        known = self.memory.after.get(key)
        if known is None:
            complain: list[Complaint] = []
            state = self.step(self.memory.states[number], block, alive, complain)
            known = self.memory.after[key] = (self._number(state), tuple(complain))
        if known[1]:
            places = None if waves is None else waves * st.lanes
            for instruction, message in known[1]:
                st.observers.report(st, self.kind, instruction, message, places)
        return known[0]

    def state_of(self, wave: int) -> Any:
        """The state of one wave now."""
        return self.memory.states[self.same if self.same is not None else int(self.each[wave])]


def registers(vector: int, scalar: int = 0) -> str:
    """Names of registers from their bits: two for each vector register."""
    names = []
    for bits, letter, step in ((vector, "v", 2), (scalar, "s", 1)):
        row = 0
        while bits:
            if bits & ((1 << step) - 1):
                names.append(f"{letter}{row}" if letter == "s" or row < 256 else f"a{row - 256}")
            bits >>= step
            row += 1
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
