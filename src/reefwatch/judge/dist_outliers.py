"""Hosts and ranks that stand out, in a form that a scheduler can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record


def of(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """`{"rank", "host", "why"}` of each rank that is to blame for something."""
    if not records:
        return []
    first = records[0]
    hosts = {row["rank"]: row.get("host", "") for row in _value(first, "dist.ranks", [])}
    found: dict[tuple[int, str], Mapping[str, Any]] = {}
    for record in records:
        for trouble in _value(record, "dist.trouble", []):
            for rank in trouble["ranks"]:
                why = str(trouble["words"])
                found[rank, why] = {"rank": rank, "host": hosts.get(rank, ""), "why": why}
    return list(found.values())


def _value(record: Record, name: str, default: Any) -> Any:
    fact = record.fact(name)
    return fact.value if isinstance(fact, Evidence) else default
