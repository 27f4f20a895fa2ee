"""Runs a program over a grid: batches of workgroups, waves in lockstep or in random order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reefwatch.isa.blocks import Block, Translation
from reefwatch.isa.memory import Arena
from reefwatch.isa.observers.base import Observers
from reefwatch.isa.state import State
from reefwatch.isa.text import EXEC, TTMP, VCC

BATCH_LANES = 16384
_DONE = 1 << 30  # the block of a wave that has ended


class Stopped(Exception):
    """The run cannot go on: a deadlock, or its allowance of steps is used up."""


@dataclass
class Counts:
    """How much was run."""

    workgroups: int = 0
    waves: int = 0
    blocks: int = 0
    wave_instructions: int = 0
    approximate: set[str] = field(default_factory=set)


class _Bytes:
    """Memory with views of several widths."""

    def __init__(self, size: int) -> None:
        self.bytes = np.zeros((size + 7) // 8 * 8, np.uint8)
        self.halves = self.bytes.view(np.uint16)
        self.words = self.bytes.view(np.uint32)
        self.doubles = self.bytes.view(np.uint64)


class Machine:
    """A program ready to run: translation, memory, launch facts, observers."""

    def __init__(
        self,
        translation: Translation,
        arena: Arena,
        kernarg: int,
        waves: int,
        shared: int,
        observers: Observers,
        seed: int | None = None,
        max_steps: int = 2_000_000,
    ) -> None:
        self.translation = translation
        self.arena = arena
        self.kernarg = kernarg
        self.waves = waves
        self.shared = shared
        self.observers = observers
        self.random = None if seed is None else np.random.default_rng(seed)
        self.steps_left = max_steps
        self.counts = Counts(approximate=set(translation.approximate))

    def run(self, grid: tuple[int, int, int]) -> None:
        """Run every workgroup. Raises Stopped."""
        lanes = self.waves * self.translation.generation.wave
        batch = max(1, BATCH_LANES // lanes)
        total = grid[0] * grid[1] * grid[2]
        with np.errstate(all="ignore"):
            for first in range(0, total, batch):
                groups = np.arange(first, min(first + batch, total))
                self._batch(groups, grid)

    # ---- the start of a batch
    def _batch(self, groups: Any, grid: tuple[int, int, int]) -> None:
        generation = self.translation.generation
        st = State(generation.wave, len(groups), self.waves, self.translation.rows, self.arena)
        st.observers = self.observers
        self.observers.first_group = int(groups[0])
        self._registers(st, groups, grid)
        self._stores(st)
        for observer in self.observers.all:
            observer.begin(st, self.translation)
        st.masks_changed()
        self.counts.workgroups += len(groups)
        self.counts.waves += st.waves
        if self.random is None:
            self._lockstep(st)
        else:
            self._one_wave_at_a_time(st)

    def _registers(self, st: State, groups: Any, grid: tuple[int, int, int]) -> None:
        """The state that a wave starts with (LLVM "User Guide for AMDGPU Backend")."""
        descriptor = self.translation.program.descriptor
        st.S[0][...] = self.kernarg & 0xFFFFFFFF
        st.S[1][...] = self.kernarg >> 32
        self._preload(st, descriptor.get("user_sgpr_kernarg_preload_length", 0))
        x, y, z = (np.repeat(axis, self.waves) for axis in _unravel(groups, grid))
        if self.translation.generation.group_ids_in_ttmp:
            st.S[TTMP + 9][...] = x
            st.S[TTMP + 7][...] = y | z << 16
            st.S[TTMP + 8][...] = (st.wave_in_group << 25).astype(np.uint32)
        else:
            at = descriptor.get("user_sgpr_count", 2)
            for name, axis in (("x", x), ("y", y), ("z", z)):
                if descriptor.get(f"system_sgpr_workgroup_id_{name}", 0):
                    st.S[at][...] = axis
                    at += 1
        item = st.wave_in_group[:, None] * st.lanes + np.arange(st.lanes)[None, :]
        st.V[0] = item
        st.S[EXEC][...] = 0xFFFFFFFF
        st.S[EXEC + 1][...] = 0xFFFFFFFF if st.lanes == 64 else 0

    def _preload(self, st: State, words: int) -> None:
        """gfx9: the first words of the argument block lie in scalars already."""
        from reefwatch.isa.memory import BASE

        start = (self.kernarg - BASE) // 4
        first = self.translation.program.descriptor.get("user_sgpr_kernarg_preload_offset", 0)
        for n in range(words):
            st.S[2 + n][...] = self.arena.words[start + first + n]

    def _stores(self, st: State) -> None:
        size = max(self.shared, 16)
        st.lds_size = self.shared  # type: ignore[attr-defined]
        st.lds_stride = 1 << (size - 1).bit_length()  # type: ignore[attr-defined]
        st.lds_store = _Bytes(st.groups * st.lds_stride)  # type: ignore[attr-defined]
        base = st.group * st.lds_stride
        st.lds_base = np.repeat(base, st.lanes).astype(np.int64)  # type: ignore[attr-defined]
        private = self.translation.program.descriptor.get("private_segment_fixed_size", 0)
        st.scratch = _Bytes((private + 3) // 4 * 4 * st.waves * st.lanes) if private else _Bytes(0)

    # ---- schedules
    def _lockstep(self, st: State) -> None:
        """All waves at the smallest block run; the others wait for them."""
        blocks = self.translation.blocks
        at = 0  # the block of all waves, while they are together
        while True:
            if at >= len(blocks):
                raise Stopped("the program runs past its end")
            block = blocks[at]
            self._run_block(st, block, st.waves)
            if block.kind == "end":
                return
            if block.kind == "barrier" or block.kind == "wait":
                for observer in self.observers.barrier:
                    observer.barrier(st, None)
                at += 1
            elif block.kind == "branch":
                taken = _taken(st, block)
                if taken is True or taken is False:
                    at = block.target if taken else at + 1
                elif taken.all():
                    at = block.target
                elif not taken.any():
                    at += 1
                else:
                    apart = np.where(taken, block.target, at + 1)
                    at = self._apart(st, apart)
                    if at < 0:
                        return
            else:
                at += 1

    def _apart(self, st: State, at: Any) -> int:
        """Run waves that have parted until they meet again; the block, or -1 when all ended."""
        blocks = self.translation.blocks
        waiting = np.zeros(st.waves, bool)
        signals = np.zeros(st.waves, np.int64)
        while True:
            running = ~waiting & (at < _DONE)
            if not running.any():
                if not waiting.any():
                    return -1
                self._release(st, at, waiting, must=True)
                continue
            lowest = int(at[running].min())
            active = running & (at == lowest)
            if active.all():
                st.act, st.all_act = np.ones(st.waves, bool), True
                st.masks_changed()
                return lowest
            self._step(st, blocks[lowest], active, at, waiting, signals)

    def _one_wave_at_a_time(self, st: State) -> None:
        """A random wave of each workgroup runs one block at a time."""
        assert self.random is not None
        blocks = self.translation.blocks
        at = np.zeros(st.waves, np.int64)
        waiting = np.zeros(st.waves, bool)
        signals = np.zeros(st.waves, np.int64)
        while True:
            running = ~waiting & (at < _DONE)
            if not running.any():
                if not waiting.any():
                    return
                self._release(st, at, waiting, must=True)
                continue
            wave = int(self.random.choice(np.flatnonzero(running)))
            peers = running & (st.wave_in_group == st.wave_in_group[wave]) & (at == at[wave])
            for _ in range(int(self.random.integers(1, 6))):
                if waiting[wave] or at[wave] >= _DONE or not (at[peers] == at[wave]).all():
                    break
                self._step(st, blocks[int(at[wave])], peers, at, waiting, signals)

    def _step(
        self, st: State, block: Block, active: Any, at: Any, waiting: Any, signals: Any
    ) -> None:
        """Some waves run one block."""
        if block.kind != "end" and block.index + 1 >= len(self.translation.blocks):
            last = block.kind == "branch" and block.when == "branch"
            if not last:
                raise Stopped("the program runs past its end")
        st.act, st.all_act = active, bool(active.all())
        st.masks_changed()
        self._run_block(st, block, int(active.sum()))
        if block.kind == "end":
            at[active] = _DONE
            self._release(st, at, waiting)
        elif block.kind in ("barrier", "wait"):
            at[active] += 1
            waiting[active] = True
            self._release(st, at, waiting)
        elif block.kind == "branch":
            taken = _taken(st, block)
            at[active] = np.where(taken, block.target, at + 1)[active]
        else:
            at[active] += 1

    def _release(self, st: State, at: Any, waiting: Any, must: bool = False) -> None:
        """Let workgroups go on in which every wave waits. Raises Stopped on a deadlock."""
        shape = (st.groups, st.per_group)
        ended = (at >= _DONE).reshape(shape)
        waits = waiting.reshape(shape)
        ready = (waits | ended).all(axis=1) & waits.any(axis=1)
        # hardware counts a wave that has ended as arrived, so the run goes on
        for group in np.flatnonzero(ready & ended.any(axis=1)):
            self._uneven(st, at, waiting, int(group), "that the others ended without reaching")
        apart = at.reshape(shape)
        # Triton's ping-pong schedule on gfx9 shifts two halves of the waves by a barrier on purpose
        shifted = self.translation.generation.name == "gfx9"
        for group in () if shifted else np.flatnonzero(ready & ~ended.any(axis=1)):
            if (apart[group] != apart[group][0]).any():
                self._uneven(st, at, waiting, int(group), "while others wait at another one")
        if not ready.any():
            if must:
                raise Stopped("no wave can go on")
            return
        groups = np.flatnonzero(ready)
        for observer in self.observers.barrier:
            observer.barrier(st, groups)
        waiting[ready[st.group]] = False

    def _uneven(self, st: State, at: Any, waiting: Any, group: int, why: str) -> None:
        """Tell of waves that wait at a barrier to which not all of their workgroup come."""
        mine = waiting & (st.group == group)
        block = self.translation.blocks[int(at[mine][0]) - 1]
        instruction = self.translation.program.slots[block.last - 1][-1]
        for observer in self.observers.uneven:
            observer.uneven(st, instruction, mine, why)

    def _run_block(self, st: State, block: Block, waves: int) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise Stopped("the allowance of steps is used up")
        for observer in self.observers.block:
            observer.block(st, block)
        self.counts.blocks += 1
        self.counts.wave_instructions += waves * (block.last - block.first)
        mode = st.mode
        code = block.code.get(mode)
        if code is None:
            code = self.translation.code(block, mode)
        code(st)
        if block.kind == "exec":
            st.masks_changed()


def _unravel(groups: Any, grid: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    return groups % grid[0], groups // grid[0] % grid[1], groups // (grid[0] * grid[1])


def _taken(st: State, block: Block) -> Any:
    """Which waves take the branch at the end of a block: True, or bool (waves,)."""
    when = block.when
    if when == "branch":
        return True
    if when[:3] == "scc":
        return st.scc if when == "scc1" else ~st.scc
    row = EXEC if when.startswith("exec") else VCC
    value = st.S[row] if st.lanes == 32 else st.S[row] | st.S[row + 1]
    return value == 0 if when.endswith("z") and not when.endswith("nz") else value != 0
