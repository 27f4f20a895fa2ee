"""All tables about machines together, with a user's own rows laid over them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UsageError
from reefwatch.core.fact import Grade
from reefwatch.data import entry, overlay, table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAMES = ("gpus", "env_vars", "rocm", "torch", "libs", "machine")
OLD_DAYS = 180
"""Older tables are said to be old: ROCm has a release every six weeks."""
_ASOF = re.compile(r'^asof = "(\d{4}-\d\d-\d\d)"', re.MULTILINE)
_NAME = re.compile(r'^name = "([^"]+)"', re.MULTILINE)
_KEYS = ("name", "version", "title")
_WEAK = (
    (Grade.RECALLED, ("unverified", "recalled", "from memory", "unknown")),
    (Grade.PREDICTED, ("inferred", "assumed", "partly", "likely", "build script", "build.sh")),
)


class Tables:
    """The tables by name, as mappings. Not to be changed. Each is parsed when it is first used."""

    def __init__(self, own: Mapping[str, Any] | None = None, where: str = "") -> None:
        """`own` are rows to be laid over the shipped ones, `where` the file they are from."""
        self._own = own or {}
        self.overlay = where

    @cached_property
    def gpus(self) -> Mapping[str, Any]:
        """Cards and targets."""
        return self._table("gpus")

    @cached_property
    def env_vars(self) -> Mapping[str, Any]:
        """Environment variables."""
        return self._table("env_vars")

    @cached_property
    def rocm(self) -> Mapping[str, Any]:
        """ROCm releases, and what is known of them."""
        return self._table("rocm")

    @cached_property
    def torch(self) -> Mapping[str, Any]:
        """PyTorch releases and wheels."""
        return self._table("torch")

    @cached_property
    def libs(self) -> Mapping[str, Any]:
        """Libraries around PyTorch."""
        return self._table("libs")

    @cached_property
    def machine(self) -> Mapping[str, Any]:
        """Firmware, driver numbers, what cards are good for."""
        return self._table("machine")

    @cached_property
    def variable_names(self) -> tuple[str, ...]:
        """The names of the variables in the table, found without parsing it."""
        if "env_vars" in self._own:
            return tuple(str(row["name"]) for row in self.env_vars.get("var", ()))
        return tuple(_NAME.findall(entry("compat/env_vars.toml").read_text(encoding="utf-8")))

    def _table(self, name: str) -> Mapping[str, Any]:
        shipped = table(f"compat/{name}.toml")
        if name not in self._own:
            return shipped
        overlay.refuse(name, shipped, self._own[name], self.overlay)
        laid: Mapping[str, Any] = _over(shipped, self._own[name], self.overlay)
        return laid

    @property
    def asof(self) -> str:
        """The oldest date of the tables, `2026-11-30`; empty when none says."""
        heads = (entry(f"compat/{name}.toml").read_text(encoding="utf-8") for name in NAMES)
        dates = [found[1] for head in heads if (found := _ASOF.search(head))]
        return min(dates, default="")

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


def load(own_file: str | Path | None = None) -> Tables:
    """The tables, with the rows of a TOML file laid over them.

    Its tables are called as ours: `[[gpus.gpu]]` with a known `name` changes that row, with a new
    one adds it; `[gpus.arch.gfx1300]` likewise. Raises UsageError for a file that cannot be read,
    and for what is no row of a shipped table.
    """
    if own_file is None:
        return Tables()
    own = _read(Path(own_file))
    strange = sorted(set(own) - set(NAMES))
    if strange:
        raise UsageError(
            f"{own_file}: there is no table {strange[0]!r}; known are {', '.join(NAMES)}"
        )
    made = Tables(own, str(own_file))
    for name in own:
        getattr(made, name)  # what does not fit is refused here
    return made


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
    if isinstance(below, list) and isinstance(above, list) and _tables([*below, *above]):
        return [*below, *above]  # rows without a name stand behind ours
    return above


def _named(rows: list[Any]) -> bool:
    return all(isinstance(row, Mapping) and _key(row) for row in rows)


def _tables(rows: list[Any]) -> bool:
    return bool(rows) and all(isinstance(row, Mapping) for row in rows)


def _key(row: Mapping[str, Any]) -> str:
    if "rocm" in row and "torch" in row:
        return f"{row['rocm']} {row['torch']}"
    return next((str(row[key]) for key in _KEYS if key in row), "")
