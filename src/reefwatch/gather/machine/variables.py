"""The environment variables that change what PyTorch does, as they are set here."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from reefwatch.data.tables import Tables, grade

_MORE = ("HSA_OVERRIDE_GFX_VERSION_*", "MIOPEN_*", "CUDA_LAUNCH_BLOCKING", "ROCM_HOME", "HIP_PATH")
"""Names beside those of the table."""


def patterns(tables: Tables) -> list[str]:
    """Names of the variables that matter, some with a `*`."""
    return [*tables.variable_names, *_MORE]


def is_set(environ: Mapping[str, str], tables: Tables) -> dict[str, dict[str, Any]]:
    """By name, what is set: its value, and what the table says of it, with its grade."""
    wanted = patterns(tables)
    plain, several = set(wanted), [pattern for pattern in wanted if "*" in pattern]
    names = [
        name
        for name in sorted(environ)
        if name in plain or any(fnmatchcase(name, pattern) for pattern in several)
    ]
    if not names:
        return {}  # the usual case, in which the table need not be parsed
    rows: dict[str, Any] = {str(row["name"]): row for row in tables.env_vars.get("var", ())}
    found = {}
    for name in names:
        row: Any = rows.get(name) or next(
            (row for pattern, row in rows.items() if "*" in pattern and fnmatchcase(name, pattern)),
            {},
        )
        found[name] = {
            "value": environ[name][:2000],
            "meaning": str(row.get("meaning", "")),
            "affects": list(row.get("affects", ())),
            "risk": str(row.get("risk", "")),
            "safe": str(row.get("safe", "")),
            "default": str(row.get("default", "")),
            "source": str(row.get("source", "")),
            "grade": grade(row.get("source", "")).value,
        }
    return found
