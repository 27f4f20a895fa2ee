"""Barriers that only some waves of a workgroup reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reefwatch.isa.observers.base import Observer

if TYPE_CHECKING:
    from reefwatch.isa.state import State
    from reefwatch.isa.text import Instruction


class Deadlocks(Observer):
    """Reports waves that wait at a barrier which others ended, or passed, without reaching."""

    kind = "barrier deadlock"

    def uneven(self, st: State, instruction: Instruction, waiting: Any, why: str) -> None:
        """Some waves wait where not all of their workgroup do."""
        places = np.flatnonzero(waiting) * st.lanes
        st.observers.report(
            st, self.kind, instruction, f"{int(waiting.sum())} waves wait at a barrier {why}",
            places,
        )  # fmt: skip
