"""Which row of one run is which of another's. Plain Python, no arrays.

On the same machine a row is its place, module, op and number. Between machines the lists of ops
differ (a fused cell, another attention, autocast's policy): there a module's rows are matched one
by one only where its list of ops is the same, else the last row of an op that both have once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Pair = tuple[Row, Row | None]
"""A row of this run, and that of the reference."""

CASTS = ("aten._to_copy", "aten.clone", "aten.copy_", "aten.contiguous")
"""Ops that only change dtype or layout: where they stand is the backend's affair."""
WHOLE = ("gradient", "weight", "parameter")
"""Phases whose rows have a name of their own."""


def key(row: Row) -> tuple[Any, ...]:
    """What makes two rows of two runs on one machine the same row."""
    return tuple(row[part] for part in ("step", "phase", "module", "op", "out", "nth"))


def match(here: Sequence[Row], there: Sequence[Row], same: bool) -> tuple[list[Pair], list[Row]]:
    """(every row of this run with its counterpart, rows of the reference without one).

    `same`: both ran on the same machine. Between machines, rows that cannot be matched are left out
    of both; how many were matched is the coverage.
    """
    if same:
        kept = {key(row): row for row in there}
        pairs: list[Pair] = [(row, kept.get(key(row))) for row in here]
        met = {key(row) for row in here}
        return pairs, [row for row in there if key(row) not in met]
    mine, theirs = _groups(here), _groups(there)
    pairs, missing = [], []
    for group, rows in mine.items():
        pairs += _group(group[1], rows, theirs.get(group, []))
    for group, rows in theirs.items():
        if group[1] == "gradient" and group not in mine:
            missing += rows
    return sorted(pairs, key=lambda pair: (pair[0]["step"], pair[0]["order"])), missing


def _groups(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if not row["op"].startswith(CASTS):
            found.setdefault((row["step"], row["phase"], row["module"]), []).append(row)
    return found


def _group(phase: str, here: list[Row], there: list[Row]) -> list[Pair]:
    if phase in WHOLE:
        kept = {row["nth"]: row for row in there}
        return [(row, kept.get(row["nth"])) for row in here]
    if [(row["op"], row["out"]) for row in here] == [(row["op"], row["out"]) for row in there]:
        return [pair for pair in zip(here, there, strict=True) if _alike(*pair)]
    if phase != "forward":
        return []
    mine, theirs = _single(here), _single(there)
    common = [key for key in mine if key in theirs and _alike(mine[key], theirs[key])]
    return [(mine[common[-1]], theirs[common[-1]])] if common else []


def _single(rows: list[Row]) -> dict[tuple[Any, ...], Row]:
    """The rows of ops that a module makes once, in order."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((row["op"], row["out"]), []).append(row)
    return {key: group[0] for key, group in found.items() if len(group) == 1}


def _alike(one: Row, two: Row) -> bool:
    """True when both are floats of one shape; the dtype is for the precision contract."""
    if one["sketch"] is None or two["sketch"] is None:
        return one["sketch"] is two["sketch"]
    return bool(list(one["sketch"]["shape"]) == list(two["sketch"]["shape"]))
