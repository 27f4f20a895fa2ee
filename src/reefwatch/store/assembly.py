"""Rows of a record, as they are written, to a Record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Grade, Unknown
from reefwatch.core.record import Event, Record, latest


def fact_of(row: Mapping[str, Any]) -> tuple[str, Fact]:
    """(name, fact) of a fact's row. Raises KeyError, TypeError or ValueError when it is none."""
    name = row["fact"]
    if not isinstance(name, str):
        raise TypeError("a fact's name is text")
    if "unknown" in row:
        return name, Unknown(str(row["unknown"]))
    grade = Grade(row.get("grade", Grade.MEASURED.value))
    said = str(row.get("name", name)), row["value"], str(row.get("unit", ""))
    return name, Evidence(*said, str(row.get("source", "")), grade)


def event_of(row: Mapping[str, Any]) -> Event:
    """The event of an event's row. Raises KeyError, TypeError or ValueError when it is none."""
    kind, data, step, id_ = row["event"], row["data"], row.get("step"), row.get("id")
    if not isinstance(kind, str) or not isinstance(data, Mapping):
        raise TypeError("an event has a kind and data")
    if not isinstance(step, (int, type(None))) or not isinstance(id_, (str, type(None))):
        raise TypeError("an event's step is a number and its id is text")
    return Event(kind, data, step, id_)


def header_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The header. Raises ValueError, with what is wrong, when it is none."""
    for name, least in (("rank", 0), ("world", 1)):
        value = row.get(name, least)
        if type(value) is not int or value < least:
            raise ValueError(f"{name} is {value!r}")
    return dict(row)


def assemble(rows: Iterable[Mapping[str, Any]], damage: str = "") -> Record:
    """The record that the rows tell; complete when the end line says so.

    The first row is the header. Rows that are none of the known are left out: a later schema of
    the same number may add some.
    """
    header: Mapping[str, Any] = {}
    facts: dict[str, Fact] = {}
    events: list[Event] = []
    remarks: list[str] = []
    complete = False
    for number, row in enumerate(rows):
        if number == 0:
            header = header_of(row)
        elif "fact" in row:
            name, fact = fact_of(row)
            facts[name] = fact
        elif "event" in row:
            events.append(event_of(row))
        elif "remark" in row:
            remarks.append(str(row["remark"]))
        elif "end" in row:
            complete = row.get("complete") is True
    return Record(header, facts, latest(events), complete, tuple(remarks), damage)
