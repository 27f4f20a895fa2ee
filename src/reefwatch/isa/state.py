"""The registers of a batch of workgroups, all waves and lanes side by side.

Legend of the register lists, each indexed by register number:
`U I F` vector registers as u32, i32, f32, (waves, lanes); `lW hW` the low and high 16 bits as u16,
`lJ hJ` as i16, `lH hH` as f16; `R` as u32, flat; `S` scalars as u32, (waves,); `SU SI SF` the same
as columns, (waves, 1), so that they broadcast over lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reefwatch.isa import arith
from reefwatch.isa.memory import Arena
from reefwatch.isa.text import EXEC, SCALARS

_VIEWS = {"U": "u32", "I": "i32", "F": "f32"}
_HALVES = {"W": "u16", "J": "i16", "H": "f16"}


class State:
    """Everything that a batch of waves holds."""

    def __init__(self, lanes: int, groups: int, per_group: int, rows: int, arena: Arena) -> None:
        self.lanes, self.groups, self.per_group = lanes, groups, per_group
        self.waves = waves = groups * per_group
        self.V = np.zeros((rows, waves, lanes), np.uint32)
        self.scalars = np.zeros((SCALARS, waves), np.uint32)
        self.S = list(self.scalars)
        self.arena = arena
        self.scc = np.zeros(waves, bool)
        self.act = np.ones(waves, bool)
        self.all_act = True
        self.X = np.ones((waves, lanes), bool)
        self.full = True
        self.every = np.arange(waves)
        self.group = self.every // per_group
        self.wave_in_group = self.every % per_group
        self.lane_index: Any = None  # flat places of the lanes that take part, None for all
        self.observers: Any = None
        self.lds_words: Any = None
        self.scratch: Any = None

    def __getattr__(self, name: str) -> Any:
        """The register lists are made when first asked for."""
        if name in _VIEWS:
            rows = list(self.V.view(getattr(arith, _VIEWS[name])))
        elif name == "R":
            rows = list(self.V.reshape(len(self.V), -1))
        elif len(name) == 2 and name[0] in "lh" and name[1] in _HALVES:
            halves = self.V.view(getattr(arith, _HALVES[name[1]]))
            rows = list(halves[:, :, int(name[0] == "h") :: 2])
        elif len(name) == 2 and name[0] == "S" and name[1] in _VIEWS:
            rows = list(self.scalars.view(getattr(arith, _VIEWS[name[1]]))[:, :, None])
        else:
            raise AttributeError(name)
        setattr(self, name, rows)
        return rows

    def scalar(self, value: Any) -> Any:
        """A constant for every wave."""
        return np.full(self.waves, value)

    def masks_changed(self) -> None:
        """Follow a change of EXEC or of the waves that are active."""
        low, high = self.S[EXEC], self.S[EXEC + 1]
        ones = np.uint32(0xFFFFFFFF)
        whole = (low == ones).all() and (self.lanes == 32 or (high == ones).all())
        if whole:
            self.X = np.ones((self.waves, self.lanes), bool)
        elif self.lanes == 32:
            self.X = arith.lanes32(low)
        else:
            self.X = arith.lanes64(low, high)
        if not self.all_act:
            self.X = self.X & self.act[:, None]
        self.full = bool(whole and self.all_act)
        self.lane_index = None

    @property
    def mode(self) -> str:
        """Which text of a block fits now."""
        return "full" if self.full else "lanes" if self.all_act else "part"

    def places(self) -> Any:
        """Flat places of the lanes that take part."""
        if self.lane_index is None:
            self.lane_index = np.flatnonzero(self.X)
        return self.lane_index

    def waves_of(self, places: Any) -> Any:
        """The wave of each flat place; None stands for all."""
        if places is None:
            return np.repeat(self.every, self.lanes)
        return places // self.lanes
