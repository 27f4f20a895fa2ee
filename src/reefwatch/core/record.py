"""What was seen, without opinion: facts by name, and events in the order they came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown


@dataclass(frozen=True)
class Event:
    """One row of a section of the record.

    An event with an `id` replaces the earlier one of the same kind and id, so that totals can be
    written again as they grow.
    """

    kind: str
    data: Mapping[str, Any]
    step: int | None = None
    id: str | None = None


@dataclass(frozen=True)
class Record:
    """All that one process (rank) saw of one run."""

    header: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    complete: bool = True
    remarks: tuple[str, ...] = ()
    """What is wrong with the record itself: truncated, a line that does not match its checksum."""
    damage: str = ""
    """Why a fact that is not here cannot be trusted to be absent."""

    @property
    def rank(self) -> int:
        return int(self.header.get("rank", 0))

    @property
    def world(self) -> int:
        return int(self.header.get("world", 1))

    def fact(self, name: str) -> Fact:
        """The fact of that name; Unknown with a reason when nothing was recorded."""
        return self.facts.get(name, Unknown(self.damage or f"nothing was recorded about {name}"))


def latest(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events with superseded ones dropped, in the order in which they first came."""
    kept: dict[object, Event] = {}
    for n, event in enumerate(events):
        kept[n if event.id is None else (event.kind, event.id)] = event
    return tuple(kept.values())


@dataclass(frozen=True)
class Case:
    """The read-only view of one record that a check gets.

    The engine hands a check only cases in which everything that it `needs` is Evidence.
    """

    record: Record

    @staticmethod
    def of(*rows: Event, **facts: Any) -> Case:
        """A small case for a check's `good` and `bad`.

        Keyword `precision__ops=3` makes the fact `precision.ops` with value 3.
        """
        named = {name.replace("__", "."): value for name, value in facts.items()}
        made = {
            name: value
            if isinstance(value, (Evidence, Unknown))
            else Evidence(name, value, source="case")
            for name, value in named.items()
        }
        return Case(Record(facts=made, events=rows))

    def fact(self, name: str) -> Fact:
        return self.record.fact(name)

    def evidence(self, name: str) -> Evidence:
        """The evidence of a fact that the check `needs`."""
        fact = self.record.fact(name)
        assert isinstance(fact, Evidence), f"{name} is not in the check's needs"
        return fact

    def value(self, name: str) -> Any:
        """The value of a fact that the check `needs`."""
        return self.evidence(name).value

    def known(self, name: str, default: Any = None) -> Any:
        """The value of a fact that may be missing."""
        fact = self.record.fact(name)
        return fact.value if isinstance(fact, Evidence) else default

    def rows(self, kind: str) -> tuple[Event, ...]:
        """The events of one section, superseded ones dropped."""
        return latest(event for event in self.record.events if event.kind == kind)
