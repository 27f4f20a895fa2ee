"""What a bar is: one table of a contract, and whether what was promised was met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One table. `scripts/verify/<word>.py` yields them from `bars()`, as they are done."""

    title: str
    promise: str
    """What must hold, in one sentence."""
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    met: bool
    remark: str = ""
    """How it was measured, and what it does not say."""

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", f"{self.promise} **{'Met' if self.met else 'Not met'}.**"]
        if self.remark:
            lines += ["", self.remark]
        lines += ["", "| " + " | ".join(map(_cell, self.columns)) + " |"]
        lines.append("|" + " --- |" * len(self.columns))
        lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
