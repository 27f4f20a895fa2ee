"""A user's own rows: what is no row of a shipped table is refused, not laid over in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from reefwatch.core.errors import UsageError

_FREE = ("asof", "schema", "sources")
_NEEDED = {"gpus.gpu": {"name", "arch", "pci"}, "env_vars.var": {"name"}}
"""What a new row must say; in the other tables what all shipped rows say."""


def refuse(name: str, shipped: Mapping[str, Any], own: Any, where: str) -> None:
    """Raise UsageError for a part of `own` that has no counterpart in the shipped table."""
    if not isinstance(own, Mapping):
        raise UsageError(f"{where}: {name} is no table")
    for key, value in own.items():
        if key in _FREE:
            continue
        place = f"{where}: {name}.{key}"
        _known(key, shipped, place)
        below = shipped[key]
        if isinstance(below, list) and below and isinstance(below[0], Mapping):
            _rows(below, value, place)
        elif isinstance(below, Mapping) and below and _all(below.values()):
            _entries(below, value, place)
        else:
            _typed([below], value, place)


def rows(own: Mapping[str, Any]) -> int:
    """How many rows an overlay holds."""
    parts = [part for table in own.values() for part in table.values()]
    return sum(len(part) if isinstance(part, (list, Mapping)) else 1 for part in parts)


def _rows(below: Sequence[Mapping[str, Any]], own: Any, place: str) -> None:
    if not isinstance(own, list):
        raise UsageError(f"{place} holds rows: write [[{place.rpartition(' ')[2]}]]")
    named = {str(row[key]) for row in below for key in ("name", "version", "title") if key in row}
    table = place.rpartition(" ")[2]
    always = _NEEDED.get(table) or set.intersection(*(set(row) for row in below))
    for number, row in enumerate(own, 1):
        if not isinstance(row, Mapping):
            raise UsageError(f"{place}: row {number} is no table")
        at = f"{place}, row {number}"
        _fields(below, row, at)
        lacks = sorted(always - set(row))
        if lacks and not named & {str(row.get(key)) for key in ("name", "version", "title")}:
            raise UsageError(f"{at} is new and lacks {', '.join(lacks)}")


def _entries(below: Mapping[str, Any], own: Any, place: str) -> None:
    """`[gpus.arch.gfx1300]`: names are free, their fields are not."""
    if not isinstance(own, Mapping):
        raise UsageError(f"{place} is no table")
    for name, row in own.items():
        if not isinstance(row, Mapping):
            raise UsageError(f"{place}.{name} is no table")
        _fields(list(below.values()), row, f"{place}.{name}")


def _fields(below: Sequence[Mapping[str, Any]], row: Mapping[str, Any], place: str) -> None:
    have: dict[str, list[Any]] = {}
    for one in below:
        for key, value in one.items():
            have.setdefault(key, []).append(value)
    for key, value in row.items():
        _known(key, have, place)
        _typed(have[key], value, f"{place}: {key}")


def _known(key: str, have: Iterable[str], place: str) -> None:
    names = list(have)
    if key not in names:
        close = get_close_matches(key, names, n=1)
        hint = f"; near: {close[0]}" if close else f"; known are {', '.join(names[:12])}"
        raise UsageError(f"{place}: there is no {key!r} in the shipped table{hint}")


def _typed(below: Sequence[Any], value: Any, place: str) -> None:
    kinds = {_kind(one) for one in below}
    if _kind(value) not in kinds:
        raise UsageError(
            f"{place} is {_kind(value)}, and the shipped one {' or '.join(sorted(kinds))}"
        )


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a table"


def _all(values: Iterable[Any]) -> bool:
    return all(isinstance(value, Mapping) for value in values)
