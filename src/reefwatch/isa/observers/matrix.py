"""Matrix instructions with lanes missing, or with operands that are not laid out as required."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reefwatch.isa.observers.base import Observer

if TYPE_CHECKING:
    from reefwatch.isa.state import State


class Matrices(Observer):
    """Reports a matrix instruction under a partial EXEC, and gfx11 operands that differ by half."""

    kind = "matrix operands"

    def matrix(self, st: State, matrix: Any) -> None:
        """EXEC must be all ones; on gfx11 lanes 16-31 must repeat lanes 0-15."""
        if not st.full and not st.X[st.act].all():
            st.observers.report(
                st, self.kind, matrix.instruction, "EXEC is not all ones at a matrix instruction"
            )
        if not matrix.replicated:
            return
        for name, row in (("A", matrix.a), ("B", matrix.b)):
            part = st.V[row : row + matrix.width]
            same = part[:, :, :16] == part[:, :, 16:]
            if not (same if st.all_act else same[:, st.act]).all():
                st.observers.report(
                    st, self.kind, matrix.instruction,
                    f"{name}: lanes 16-31 do not repeat lanes 0-15",
                )  # fmt: skip
