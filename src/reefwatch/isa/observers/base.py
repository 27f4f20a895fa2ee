"""What an observer is, and how reports are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reefwatch.isa.text import Instruction

if TYPE_CHECKING:
    from reefwatch.isa.blocks import Block, Translation
    from reefwatch.isa.state import State

_EVENTS = ("access", "accessed", "scalar_load", "lds", "lds_done", "matrix", "block", "barrier",
           "uneven")  # fmt: skip


@dataclass(frozen=True)
class Report:
    """One thing seen: its kind, the instruction, the source line, and how often."""

    kind: str
    message: str
    line: int  # of the assembly text
    instruction: str
    loc: str  # file:line of the source
    group: int | None = None  # workgroup and wave of the first time
    wave: int | None = None
    times: int = 1


class Observer:
    """Watches one thing. Subclasses override the events that they need."""

    kind = ""

    def begin(self, st: State, translation: Translation) -> None:
        """A batch of workgroups starts."""

    def access(self, st: State, access: Any, places: Any, offsets: Any) -> None:
        """Global memory is about to be touched, at arena offsets."""

    def accessed(self, st: State, access: Any, places: Any, offsets: Any) -> None:
        """Global memory was touched."""

    def scalar_load(self, st: State, instruction: Instruction, offsets: Any, words: int) -> None:
        """A scalar load of each wave."""

    def lds(self, st: State, access: Any, places: Any, flat: Any, data: int) -> None:
        """LDS is about to be touched, at bytes of the store of all workgroups."""

    def lds_done(self, st: State, access: Any, places: Any, flat: Any, data: int) -> None:
        """LDS was touched."""

    def matrix(self, st: State, matrix: Any) -> None:
        """A matrix instruction runs."""

    def block(self, st: State, block: Block) -> None:
        """The active waves enter a block."""

    def barrier(self, st: State, groups: Any) -> None:
        """These workgroups (None: all) pass a barrier."""

    def uneven(self, st: State, instruction: Instruction, waiting: Any, why: str) -> None:
        """Waves wait at a barrier where others of their workgroup never come."""


class Observers:
    """The observers of a run by event, and what they reported."""

    def __init__(self, observers: list[Observer]) -> None:
        self.all = observers
        self.reports: dict[tuple[str, int], Report] = {}
        self.first_group = 0
        for event in _EVENTS:
            chosen = [
                one
                for one in observers
                if getattr(type(one), event) is not getattr(Observer, event)
            ]
            setattr(self, event, chosen)

    if TYPE_CHECKING:
        access: list[Observer]
        accessed: list[Observer]
        scalar_load: list[Observer]
        lds: list[Observer]
        lds_done: list[Observer]
        matrix: list[Observer]
        block: list[Observer]
        barrier: list[Observer]
        uneven: list[Observer]

    def report(
        self, st: State, kind: str, instruction: Instruction, message: str, places: Any = None
    ) -> None:
        """Keep a report; the same kind at the same instruction is counted, not repeated."""
        key = (kind, instruction.line)
        times = 1
        if key in self.reports:
            old = self.reports[key]
            self.reports[key] = Report(**{**vars(old), "times": old.times + 1})
            return
        group = wave = None
        if places is not None and len(places):
            at = int(places[0]) // st.lanes
            group, wave = self.first_group + at // st.per_group, at % st.per_group
        self.reports[key] = Report(
            kind, message, instruction.line, instruction.text, instruction.loc, group, wave, times
        )
