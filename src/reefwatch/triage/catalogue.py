"""All families that are shipped, each a file of `data/failures`."""

from __future__ import annotations

from functools import cache

from reefwatch import data
from reefwatch.triage.family import Family, loaded


@cache
def families() -> tuple[Family, ...]:
    """The known families and the plain layers. Raises MalformedFamily, by file name."""
    folder = data.entry("failures")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    tables = [(name, data.table(f"failures/{name}")) for name in names]
    return loaded(tables, data.table("layers.toml")["layer"])
