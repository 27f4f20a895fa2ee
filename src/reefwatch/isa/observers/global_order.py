"""Global memory that waves of one workgroup pass between them: races, late stores, stale reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reefwatch.isa.flow import successors
from reefwatch.isa.observers.base import Observer

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Block, Translation
    from reefwatch.isa.state import State


class GlobalOrder(Observer):
    """Reports a load of what another wave of the workgroup stored, when order is not assured.

    Assured means: the store was waited for before a barrier, and the loading wave made its cache
    forget after it. Watched only in programs where a load may follow a store and a barrier.
    """

    kind = "global memory order"

    def begin(self, st: State, translation: Translation) -> None:
        """Who wrote each word, and when."""
        cache = translation.program.cache
        key = f"talks {translation.generation.name}"
        if key not in cache:
            cache[key] = _may_talk(translation.blocks)
        self.on = bool(cache[key]) and st.per_group > 1
        if not self.on:
            return
        self.counter = translation.generation.counter("store")
        self.cached = translation.generation.name != "gfx9"  # there waves of a group share one
        words = st.arena.size // 4
        self.writer = np.zeros(words, np.int32)  # wave + 1
        self.when = np.zeros(words, np.int32)  # barriers passed by its workgroup
        self.number = np.zeros(words, np.int32)  # the how-manieth store of its wave
        self.epoch = np.zeros(st.groups, np.int32)
        self.stores = np.zeros(st.waves, np.int32)
        self.done = np.zeros(st.waves, np.int32)  # stores waited for
        self.done_at_barrier = np.zeros(st.waves, np.int32)
        self.forgot = np.full(st.waves, -1, np.int32)  # epoch of the last invalidation

    def block(self, st: State, block: Block) -> None:
        """Follow stores, waits and invalidations of the active waves, in order."""
        if not self.on:
            return
        self.forgotten_late = False
        issued = sum(_is_store(effect) for effect in block.effects)
        waits = [left for effect in block.effects for name, left in effect.waits
                 if name == self.counter]  # fmt: skip
        if waits and not issued:
            done = self.stores - min(waits)
            np.maximum(self.done, done, out=self.done, where=st.act)
        elif waits:
            self._in_order(st, block)
        if any(effect.kind == "invalidate" for effect in block.effects):
            np.copyto(self.forgot, self.epoch[st.group], where=st.act)

    def _in_order(self, st: State, block: Block) -> None:
        """A block that both stores and waits: stores before each wait count."""
        before = 0
        for effect in block.effects:
            for name, left in effect.waits:
                if name == self.counter:
                    done = self.stores + before - left
                    np.maximum(self.done, done, out=self.done, where=st.act)
            before += _is_store(effect)

    def access(self, st: State, access: Any, places: Any, offsets: Any) -> None:
        """Loads are compared, stores are noted."""
        if not self.on:
            return
        places = np.arange(st.waves * st.lanes) if places is None else places
        waves = places // st.lanes
        if access.kind == "load":
            self._load(st, access, places, waves, offsets)
            return
        if access.kind == "atomic":
            return
        self.stores += np.bincount(np.unique(waves), minlength=st.waves).astype(np.int32)
        for n in range(max(1, access.bytes // 4)):
            word = (offsets >> 2) + n
            self.writer[word] = waves + 1
            self.when[word] = self.epoch[st.group[waves]]
            self.number[word] = self.stores[waves]

    def _load(self, st: State, access: Any, places: Any, waves: Any, offsets: Any) -> None:
        for n in range(max(1, access.bytes // 4)):
            word = (offsets >> 2) + n
            writer = self.writer[word] - 1
            other = (writer >= 0) & (writer != waves)
            if not other.any():
                continue
            other &= st.group[np.maximum(writer, 0)] == st.group[waves]
            epoch = self.epoch[st.group[waves]]
            race = other & (self.when[word] == epoch)
            late = other & ~race & (self.number[word] > self.done_at_barrier[np.maximum(writer, 0)])
            stale = other & ~race & ~late & self.cached & (self.forgot[waves] <= self.when[word])
            for bad, why in (
                (race, "stored with no barrier between"),
                (late, "stored and did not wait for before the barrier"),
                (stale, "stored, while its own cache was not told to forget"),
            ):
                if bad.any():
                    at = int(np.flatnonzero(bad)[0])
                    st.observers.report(
                        st, self.kind, access.instruction,
                        f"wave {int(waves[at]) % st.per_group} loads "
                        f"{st.arena.where(int(offsets[at]))} that wave "
                        f"{int(writer[at]) % st.per_group} {why}", places[bad],
                    )  # fmt: skip

    def barrier(self, st: State, groups: Any) -> None:
        """A barrier orders what was waited for."""
        if not self.on:
            return
        if groups is None:
            self.epoch += 1
            self.done_at_barrier[:] = self.done
        else:
            self.epoch[groups] += 1
            mine = np.isin(st.group, groups)
            self.done_at_barrier[mine] = self.done[mine]


def _is_store(effect: Any) -> bool:
    return (
        effect.kind == "memory"
        and effect.access.space in ("global", "buffer", "flat")
        and effect.access.kind == "store"
    )


def _is_load(effect: Any) -> bool:
    return (
        effect.kind == "memory"
        and effect.access.space in ("global", "buffer", "flat")
        and effect.access.kind == "load"
    )


def _may_talk(blocks: list[Block]) -> bool:
    """Can a global load follow a global store?"""
    reached: set[int] = set()
    todo = []
    for block in blocks:
        stored = False
        for effect in block.effects:
            stored = stored or _is_store(effect)
            if stored and _is_load(effect):
                return True
        if stored:
            todo += successors(block, len(blocks))
    while todo:
        at = todo.pop()
        if at in reached:
            continue
        reached.add(at)
        if any(_is_load(effect) for effect in blocks[at].effects):
            return True
        todo += successors(blocks[at], len(blocks))
    return False
