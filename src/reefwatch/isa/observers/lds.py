"""LDS seen by several waves: races, reads of what nobody wrote, and work not waited for."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from reefwatch.isa.observers.base import Observer
from reefwatch.isa.observers.shadow import ONES, Shadow, lds_unit, repeated

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Translation
    from reefwatch.isa.state import State

MANY, ALIKE = 255, 254  # marks: touched by several waves; written alike by several waves


class LdsRaces(Observer):
    """Reports two waves that touch one byte, one of them writing, with no barrier between."""

    kind = "LDS race"

    def begin(self, st: State, translation: Translation) -> None:
        """Nobody has touched anything."""
        self.alone = st.per_group == 1
        if self.alone:
            return
        unit = lds_unit(translation)
        self.writer, self.reader = Shadow(st, unit), Shadow(st, unit)
        self.tags = np.repeat((st.wave_in_group + 1).astype(np.uint8), st.lanes)
        self.tag_cache: dict[Any, Any] = {}

    def _tags(self, places: Any, view: Any) -> Any:
        if places is not None:
            return repeated(self.tags.take(places), view)
        if view.itemsize not in self.tag_cache:
            self.tag_cache[view.itemsize] = repeated(self.tags, view)
        return self.tag_cache[view.itemsize]

    def lds(self, st: State, access: Any, places: Any, flat: Any, data: int) -> None:
        """Compare with who touched it since the barrier, then note who did now."""
        if self.alone:
            return
        if access.kind == "load":
            self._load(st, access, places, flat)
        else:
            self._store(st, access, places, flat, data)

    def _load(self, st: State, access: Any, places: Any, flat: Any) -> None:
        for view, index in self.writer.spans(access, flat):
            tags = self._tags(places, view)
            self._compare(st, access, places, flat, view[index], tags, "read", "wrote")
        for view, index in self.reader.spans(access, flat):
            tags = self._tags(places, view)
            before = view[index]
            view[index] = tags
            mixed = (view[index] != tags) | ((before != 0) & (before != tags))
            if mixed.any():
                view[index[mixed]] = ONES[view.itemsize]

    def _store(self, st: State, access: Any, places: Any, flat: Any, data: int) -> None:
        atomic = access.kind == "atomic"
        for view, index in self.reader.spans(access, flat):
            tags = self._tags(places, view)
            self._compare(st, access, places, flat, view[index], tags, "write", "read")
        for view, index in self.writer.spans(access, flat):
            tags = self._tags(places, view)
            many = view.dtype.type(ONES[view.itemsize])
            before = view[index]
            if atomic:  # atomics agree with each other, not with plain accesses
                before = np.where(before == many, view.dtype.type(0), before)
                self._compare(st, access, places, flat, before, tags, "write", "wrote")
                view[index] = many
                continue
            view[index] = tags
            foreign = (before != 0) & (before != tags)
            shared = view[index] != tags  # waves side by side; LaneConflicts compares their values
            if foreign.any():
                differs = self._changes(st, access, places, flat, data)
                seen = np.where(differs, before, view.dtype.type(0))
                self._compare(st, access, places, flat, seen, tags, "write", "wrote")
                shared |= foreign
            if shared.any():
                alike = int("01" * view.itemsize, 16) * ALIKE
                view[index[shared]] = view.dtype.type(alike)

    def _changes(self, st: State, access: Any, places: Any, flat: Any, data: int) -> Any:
        """Which lanes of a store are about to change what is there."""
        out = np.zeros(len(flat), bool)
        for n in range(access.count):
            row = st.R[data + n]
            value = row if places is None else row.take(places)
            value = value >> np.uint32(16) if access.half else value
            if access.size == 4:
                out |= st.lds_store.words[(flat >> 2) + n] != value
            elif access.size == 2:
                out |= st.lds_store.halves[flat >> 1] != value.astype(np.uint16)
            else:
                out |= st.lds_store.bytes[flat] != value.astype(np.uint8)
        return out

    def _compare(
        self, st: State, access: Any, places: Any, flat: Any, seen: Any, tags: Any,
        now: str, then: str,
    ) -> None:  # fmt: skip
        clash = (seen != 0) & (seen != tags)
        if not clash.any():
            return
        at = np.flatnonzero(clash)
        # a wide item may hold own marks and none: only foreign marks count
        bytes_ = np.ascontiguousarray(seen[at]).view(np.uint8).reshape(len(at), -1)
        own = (np.ascontiguousarray(tags[at]).view(np.uint8).reshape(len(at), -1))[:, :1]
        foreign = (bytes_ != 0) & (bytes_ != own)
        if now == "read":
            foreign &= bytes_ != ALIKE
        rows = np.flatnonzero(foreign.any(axis=1))
        if not len(rows):
            return
        first = at[rows[0]]
        other = int(bytes_[rows[0]][foreign[rows[0]]][0])
        who = "several waves" if other == MANY else f"wave {other - 1}"
        mine = int(own[rows[0]][0]) - 1
        byte = int(flat[first]) % st.lds_stride
        where = first if places is None else places[first]
        st.observers.report(
            st, self.kind, access.instruction,
            f"wave {mine} {now}s LDS byte {byte} that {who} {then} with no barrier between",
            np.array([where]),
        )  # fmt: skip

    def barrier(self, st: State, groups: Any) -> None:
        """What came before a barrier is ordered."""
        if self.alone:
            return
        for shadow in (self.writer, self.reader):
            if groups is None:
                shadow.bytes[:] = 0
                continue
            size = st.lds_stride // shadow.unit
            for group in groups:
                shadow.bytes[group * size : (group + 1) * size] = 0


class UninitialisedLds(Observer):
    """Reports a load of LDS bytes that nobody wrote."""

    kind = "uninitialised LDS"

    def begin(self, st: State, translation: Translation) -> None:
        """Nothing is written."""
        self.written = Shadow(st, lds_unit(translation))

    def lds(self, st: State, access: Any, places: Any, flat: Any, data: int) -> None:
        """Stores mark, loads must find a mark."""
        for view, index in self.written.spans(access, flat):
            marks = view.dtype.type(ONES[view.itemsize])
            if access.kind == "store":
                view[index] = marks
                continue
            bad = view[index] != marks
            if bad.any():
                at = int(np.flatnonzero(bad)[0])
                byte = int(flat[at]) % st.lds_stride
                where = at if places is None else int(places[at])
                st.observers.report(
                    st, self.kind, access.instruction,
                    f"LDS byte {byte} read before any write", np.array([where]),
                )  # fmt: skip
                view[index] = marks


class LaneConflicts(Observer):
    """Reports lanes of a workgroup that write different values to one address in one store."""

    kind = "conflicting lanes"

    def lds_done(self, st: State, access: Any, places: Any, flat: Any, data: int) -> None:
        """What a lane stored must be there."""
        if access.kind == "store":
            self._read_back(st, access, places, flat, st.lds_store, data, "LDS byte")

    def accessed(self, st: State, access: Any, places: Any, offsets: Any) -> None:
        """The same for global memory."""
        if access.kind == "store":
            self._read_back(st, access, places, offsets, st.arena, access.data, "byte")

    def _read_back(
        self, st: State, access: Any, places: Any, flat: Any, store: Any, data: int, what: str
    ) -> None:
        for n in range(access.count):
            row = st.R[data + n]
            value = row if places is None else row.take(places)
            if access.size == 4:
                found = store.words[(flat >> 2) + n]
            else:
                value = value >> np.uint32(16 if access.half else 0)
                kind = np.uint16 if access.size == 2 else np.uint8
                value = value.astype(kind)
                found = store.halves[flat >> 1] if access.size == 2 else store.bytes[flat]
            lost = found != value
            if not lost.any():
                continue
            at = np.flatnonzero(lost)
            waves = (at if places is None else places[at]) // st.lanes
            last = self._last_writer(st, places, flat, flat[at])
            same = st.group[last] == st.group[waves]
            if same.any():
                first = int(at[same][0])
                who = "lanes" if (last == waves)[same].any() else "waves"
                where = first if places is None else int(places[first])
                place = int(flat[first]) % st.lds_stride if "LDS" in what else int(flat[first])
                name = f"{what} {place}" if "LDS" in what else st.arena.where(place)
                st.observers.report(
                    st, self.kind, access.instruction,
                    f"{who} write different values to {name}", np.array([where]),
                )  # fmt: skip
                return

    def _last_writer(self, st: State, places: Any, flat: Any, wanted: Any) -> Any:
        """The wave of the lane whose value stayed, at each wanted address."""
        order = np.argsort(flat, kind="stable")
        last = order[np.searchsorted(flat[order], wanted, "right") - 1]
        return (last if places is None else places[last]) // st.lanes


class LateLds(Observer):
    """Reports LDS work that was not waited for before a barrier and meets another wave after it."""

    kind = "unwaited before barrier"

    def begin(self, st: State, translation: Translation) -> None:
        """Nothing is late."""
        self.alone = st.per_group == 1
        self.counter = translation.generation.counter("lds")
        self.log: deque[tuple[Any, list[tuple[Any, Any]]]] = deque(maxlen=64)
        self.half = False  # the first address of a two-address operation was seen
        self.pending = np.zeros(st.waves, np.int64)  # LDS operations under way
        self.deepest = 0
        self.late: tuple[Shadow, Shadow] | None = None
        self.unit = lds_unit(translation)

    def block(self, st: State, block: Any) -> None:
        """Count what is issued and what is waited for, per wave."""
        if self.alone:
            return
        plan = block.code.get(self.kind)
        if plan is None:
            plan = block.code[self.kind] = _count_plan(block, self.counter)
        for limit, more in plan:
            if limit is not None:
                if st.all_act:
                    np.minimum(self.pending, limit, out=self.pending)
                else:
                    np.minimum(self.pending, limit, out=self.pending, where=st.act)
            if more:
                np.add(self.pending, more, out=self.pending, where=st.act)

    def lds(self, st: State, access: Any, places: Any, flat: Any, data: int) -> None:
        """Compare with what is late, and remember."""
        if self.alone:
            return
        if self.late is not None:
            self._compare(st, access, places, flat)
        if self.half:
            self.log[-1][1].append((places, flat))
        else:
            self.log.append((access, [(places, flat)]))
        self.half = access.second is not None and not self.half

    def _compare(self, st: State, access: Any, places: Any, flat: Any) -> None:
        assert self.late is not None
        wrote, read = self.late
        tags = np.repeat((st.wave_in_group + 1).astype(np.uint8), st.lanes)
        tags = tags if places is None else tags.take(places)
        shadows = (
            ((wrote, "stored"),) if access.kind == "load" else ((wrote, "stored"), (read, "loaded"))
        )
        for shadow, verb in shadows:
            width = max(1, access.bytes // shadow.unit)
            for n in range(width):
                seen = shadow.bytes[flat // shadow.unit + n]
                bad = (seen != 0) & (seen != tags)
                if bad.any():
                    at = int(np.flatnonzero(bad)[0])
                    byte = int(flat[at]) % st.lds_stride
                    where = at if places is None else int(places[at])
                    st.observers.report(
                        st, self.kind, access.instruction,
                        f"LDS byte {byte}: wave {int(seen[at]) - 1} {verb} it before the barrier "
                        "without waiting for that", np.array([where]),
                    )  # fmt: skip
                    return

    def barrier(self, st: State, groups: Any) -> None:
        """What is under way at a barrier is late after it."""
        if self.alone:
            return
        depth = int(self.pending.max())
        self.late = None
        if not depth:
            self.log.clear()
            return
        wrote, read = Shadow(st, self.unit), Shadow(st, self.unit)
        everyone = np.arange(st.waves * st.lanes)
        under_way = self.pending.copy()
        for access, parts in reversed(self.log):
            shadow = read if access.kind == "load" else wrote
            for places, flat in parts:
                places = everyone if places is None else places
                mine = under_way[places // st.lanes] > 0
                waves = places[mine] // st.lanes
                for n in range(max(1, access.bytes // self.unit)):
                    shadow.bytes[flat[mine] // self.unit + n] = waves % st.per_group + 1
            under_way[np.unique((everyone if places is None else places) // st.lanes)] -= 1
            if (under_way <= 0).all():
                break
        self.late = (wrote, read)


def _count_plan(block: Any, counter: str) -> list[tuple[int | None, int]]:
    """The block as steps: wait until at most so many, then issue so many."""
    plan: list[tuple[int | None, int]] = []
    more = 0
    limit: int | None = None
    for effect in block.effects:
        for name, left in effect.waits:
            if name == counter:
                if more:
                    plan.append((limit, more))
                    more = 0
                    limit = left
                else:
                    limit = left if limit is None else min(limit, left)
        if effect.kind == "memory" and effect.access.space == "lds":
            more += 1
    if more or limit is not None:
        plan.append((limit, more))
    return plan
