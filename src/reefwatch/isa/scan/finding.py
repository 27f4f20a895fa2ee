"""What a scan finds."""

from __future__ import annotations

from dataclasses import dataclass

from reefwatch.isa.text import Instruction


@dataclass(frozen=True)
class Found:
    """One finding: its kind, a message, and the line of text and source, where there is one."""

    kind: str
    message: str
    line: int = 0
    instruction: str = ""
    loc: str = ""


def at(kind: str, message: str, instruction: Instruction) -> Found:
    """A finding at an instruction."""
    return Found(kind, message, instruction.line, instruction.text, instruction.loc)
