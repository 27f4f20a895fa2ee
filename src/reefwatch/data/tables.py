"""All tables about machines together, with a user's own rows laid over them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UsageError
from reefwatch.core.fact import Grade
from reefwatch.data import table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAMES = ("gpus", "env_vars", "rocm", "torch", "libs", "machine")
OLD_DAYS = 180
"""Older tables are said to be old: ROCm has a release every six weeks."""
_KEYS = ("name", "version", "title")
_WEAK = (
    (Grade.RECALLED, ("unverified", "recalled", "from memory", "unknown")),
    (Grade.PREDICTED, ("inferred", "assumed", "partly", "likely", "build script", "build.sh")),
)


@dataclass(frozen=True)
class Tables:
    """The shipped tables, by name, as mappings. Not to be changed."""

    gpus: Mapping[str, Any] = field(default_factory=dict)
    env_vars: Mapping[str, Any] = field(default_factory=dict)
    rocm: Mapping[str, Any] = field(default_factory=dict)
    torch: Mapping[str, Any] = field(default_factory=dict)
    libs: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    overlay: str = ""
    """The file whose rows were laid over, as it was given."""

    @property
    def asof(self) -> str:
        """The oldest date of the tables, `2026-11-30`; empty when none says."""
        dates = [str(getattr(self, name).get("asof", "")) for name in NAMES]
        return min((day for day in dates if day), default="")

    def age(self, today: date) -> str:
        """A remark when the tables are old, else empty."""
        try:
            days = (today - date.fromisoformat(self.asof)).days
        except ValueError:
            return "the tables about cards and releases do not say of when they are"
        if days <= OLD_DAYS:
            return ""
        return (
            f"the tables about cards and releases are of {self.asof}, {days} days old: newer "
            "releases are not in them (update reefwatch, or give --data FILE)"
        )


def load(overlay: str | Path | None = None) -> Tables:
    """The tables, with the rows of a TOML file laid over them.

    Its tables are called as ours: `[[gpus.gpu]]` with a known `name` changes that row, with a new
    one adds it; `[gpus.arch.gfx1300]` likewise. Raises UsageError for a file that cannot be read.
    """
    shipped: dict[str, Any] = {name: table(f"compat/{name}.toml") for name in NAMES}
    if overlay is None:
        return Tables(**shipped)
    own = _read(Path(overlay))
    strange = sorted(set(own) - set(NAMES))
    if strange:
        raise UsageError(
            f"{overlay}: there is no table {strange[0]!r}; known are {', '.join(NAMES)}"
        )
    laid: dict[str, Any] = {
        name: _over(shipped[name], own.get(name, {}), str(overlay)) for name in NAMES
    }
    return Tables(overlay=str(overlay), **laid)


def grade(*texts: object) -> Grade:
    """How far a row is to be trusted, from what it says of its own source."""
    said = " ".join(str(text) for text in texts).lower()
    for weak, words in _WEAK:
        if any(word in said for word in words):
            return weak
    return Grade.MEASURED


def _read(path: Path) -> Mapping[str, Any]:
    try:
        parsed: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return parsed
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML: {str(error)[:200]}") from None


def _over(below: Any, above: Any, where: str) -> Any:
    if isinstance(below, Mapping):
        if not isinstance(above, Mapping):
            raise UsageError(f"{where}: {above!r} stands where a table should")
        merged = dict(below)
        for key, value in above.items():
            merged[key] = _over(below[key], value, where) if key in below else value
        return merged
    if isinstance(below, list) and isinstance(above, list) and _named([*below, *above]):
        rows = {_key(row): dict(row) for row in below}
        for row in above:
            rows[_key(row)] = {**rows.get(_key(row), {}), **row}
        return list(rows.values())
    return above


def _named(rows: list[Any]) -> bool:
    return all(isinstance(row, Mapping) and _key(row) for row in rows)


def _key(row: Mapping[str, Any]) -> str:
    if "rocm" in row and "torch" in row:
        return f"{row['rocm']} {row['torch']}"
    return next((str(row[key]) for key in _KEYS if key in row), "")
