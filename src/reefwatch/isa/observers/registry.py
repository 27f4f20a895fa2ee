"""The observers by name."""

from __future__ import annotations

from reefwatch.isa.observers.base import Observer
from reefwatch.isa.observers.bounds import Bounds
from reefwatch.isa.observers.deadlock import Deadlocks
from reefwatch.isa.observers.global_order import GlobalOrder
from reefwatch.isa.observers.lds import LaneConflicts, LateLds, LdsRaces, UninitialisedLds
from reefwatch.isa.observers.masks import LostMasks
from reefwatch.isa.observers.matrix import Matrices
from reefwatch.isa.observers.uninitialised import UninitialisedRegisters
from reefwatch.isa.observers.waits import Waits

ALL: dict[str, type[Observer]] = {
    "bounds": Bounds,
    "registers": UninitialisedRegisters,
    "waits": Waits,
    "lds-races": LdsRaces,
    "lds-uninitialised": UninitialisedLds,
    "lane-conflicts": LaneConflicts,
    "late-lds": LateLds,
    "global-order": GlobalOrder,
    "matrices": Matrices,
    "masks": LostMasks,
    "deadlocks": Deadlocks,
}
