"""Accesses outside the buffer arguments."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from reefwatch.isa.observers.base import Observer

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Translation
    from reefwatch.isa.state import State
    from reefwatch.isa.text import Instruction


class Bounds(Observer):
    """Reports an access that is not inside one buffer, and a store to read-only memory."""

    kind = "out of bounds"

    def begin(self, st: State, translation: Translation) -> None:
        """The buffers by address."""
        self.regions = sorted(st.arena.regions, key=lambda region: region.start)
        self.starts = [region.start for region in self.regions]

    def _fits(self, first: int, end: int, store: bool) -> bool:
        at = bisect_right(self.starts, first) - 1
        if at < 0:
            return False
        region = self.regions[at]
        return end <= region.start + region.size and not (store and region.read_only)

    def access(self, st: State, access: Any, places: Any, offsets: Any) -> None:
        """All lanes lie in one buffer, or each is looked at."""
        store = access.kind != "load"
        if self._fits(int(offsets.min()), int(offsets.max()) + access.bytes, store):
            return
        at = np.searchsorted(self.starts, offsets, "right") - 1
        ends = np.array([r.start + r.size for r in self.regions])
        closed = np.array([store and r.read_only for r in self.regions])
        bad = (at < 0) | (offsets + access.bytes > ends[at]) | closed[at]
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            where = st.arena.where(int(offsets[first]))
            places = np.arange(st.waves * st.lanes) if places is None else places
            st.observers.report(
                st, self.kind, access.instruction,
                f"{access.kind} of {access.bytes} bytes at {where}", places[bad],
            )  # fmt: skip

    def scalar_load(self, st: State, instruction: Instruction, offsets: Any, words: int) -> None:
        """The same for scalar loads of the active waves."""
        mine = offsets if st.all_act else offsets[st.act]
        first, last = int(mine.min()), int(mine.max())
        if not self._fits(first, last + 4 * words, False):
            where = st.arena.where(first)
            st.observers.report(
                st, self.kind, instruction, f"scalar load of {4 * words} bytes at {where}"
            )
