"""Hosts, ranks and links that stand out, in a form that a scheduler can use."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.record import Event, Record

SLOW = Tolerance(
    0.5,
    "of the median of all links",
    "links of one kind differ by a few percent; half is a narrower slot or another network",
)


def links(events: Iterable[Event]) -> list[Mapping[str, Any]]:
    """The rows of links between two ranks."""
    return [e.data for e in events if e.kind == "dist.step" and e.data.get("form") == "link"]


def slow(events: Iterable[Event]) -> list[tuple[Mapping[str, Any], float]]:
    """(row, median) of each link that is slower than the others; of three links at least."""
    rows = [row for row in links(events) if row["state"] == "right"]
    if len(rows) < 3:
        return []
    usual = statistics.median(row["busbw"] for row in rows)
    return [(row, usual) for row in rows if row["busbw"] < SLOW.limit * usual]


def of(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """`{"rank", "host", "why"}` of each rank that is to blame for something."""
    if not records:
        return []
    first = records[0]
    hosts = {row["rank"]: row.get("host", "") for row in _value(first, "dist.ranks", [])}
    found: dict[tuple[int, str], Mapping[str, Any]] = {}

    def name(ranks: Iterable[int], why: str) -> None:
        for rank in ranks:
            found[rank, why] = {"rank": rank, "host": hosts.get(rank, ""), "why": why}

    for record in records:
        for trouble in _value(record, "dist.trouble", []):
            name(trouble["ranks"], str(trouble["words"]))
        for event in record.events:
            if event.data.get("phase") == "replay" and event.data["state"] == "wrong":
                name(event.data["ranks"], str(event.data["detail"]))
    for row, usual in slow(first.events):
        why = f"link {row['pair']}: {row['busbw']:.2f} GB/s, usual {usual:.2f}"
        name(_shared(row, first.events), why)
    return list(found.values())


def _shared(row: Mapping[str, Any], events: Iterable[Event]) -> list[int]:
    """The rank of a slow link that is in most slow links; both when that does not tell."""
    counts: dict[int, int] = {}
    for other, _ in slow(events):
        for rank in other["pair"]:
            counts[rank] = counts.get(rank, 0) + 1
    most = max(counts[rank] for rank in row["pair"])
    return [rank for rank in row["pair"] if counts[rank] == most]


def _value(record: Record, name: str, default: Any) -> Any:
    fact = record.fact(name)
    return fact.value if isinstance(fact, Evidence) else default
