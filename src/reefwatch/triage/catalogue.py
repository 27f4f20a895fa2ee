"""All families that are shipped, each a file of `data/failures`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from reefwatch import data
from reefwatch.triage.family import Family, MalformedFamily, loaded


@cache
def families() -> tuple[Family, ...]:
    """The known families and the plain layers. Raises MalformedFamily, by file name."""
    folder = data.entry("failures")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    tables = [(name, _table(f"failures/{name}", name)) for name in names]
    return loaded(tables, _table("layers.toml", "layers.toml")["layer"])


def _table(path: str, name: str) -> Mapping[str, Any]:
    """A file of the catalogue. Raises MalformedFamily for one that is no TOML, by its name."""
    try:
        return data.table(path)
    except ValueError as error:  # of TOML, or of UTF-8
        raise MalformedFamily(f"{name}: no TOML ({error})") from None
