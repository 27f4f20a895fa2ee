"""reefwatch.lock: TOML with one line for each thing, in a fixed order, made to be diffed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UnreadableRecord, UsageError

SCHEMA = 1
NAME = "reefwatch.lock"
SECTIONS = (
    *("system", "gpu", "firmware", "rocm", "packages", "tags", "commits", "libraries"),
    *("databases", "sources", "flags", "environment", "unknown"),
)
_HEAD = "What computes here. `reefwatch lock --check` names each drift from it."


def text(sections: Mapping[str, Mapping[str, Any]], made: str, by: str) -> str:
    """The file. The same sections give the same text, whatever order they came in."""
    import tomlkit

    document = tomlkit.document()
    document.add(tomlkit.comment(_HEAD))
    document.add("schema", tomlkit.item(SCHEMA))
    document.add("made", tomlkit.item(made))
    document.add("by", tomlkit.item(by))
    for name in (*SECTIONS, *sorted(set(sections) - set(SECTIONS))):
        if name not in sections:
            continue
        part = tomlkit.table()
        for key in sorted(sections[name], key=_by_number):
            value = sections[name][key]
            plain = value if isinstance(value, (str, int, float, bool)) else str(value)
            part.add(tomlkit.key([key]), tomlkit.item(plain))
        document.add(tomlkit.nl())
        document.add(name, part)
    return tomlkit.dumps(document)


def write(path: Path, content: str) -> None:
    """Write the file whole or not at all. Raises UsageError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(content, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The sections. Raises UnreadableRecord for what is no lock, or one of a newer version."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableRecord(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # not TOML, not UTF-8
        raise UnreadableRecord(f"{path} is no lock: {error}") from None
    schema = told.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise UnreadableRecord(f"{path} is no lock: it names no schema")
    if schema > SCHEMA:
        raise UnreadableRecord(f"{path} was written by a newer version (schema {schema})")
    wrong = [n for n in SECTIONS if n in told and not isinstance(told[n], dict)]
    if wrong:
        raise UnreadableRecord(f"{path} is no lock: {wrong[0]} is no table")
    return {name: part for name, part in told.items() if isinstance(part, dict)}


def _by_number(key: str) -> tuple[Any, ...]:
    return tuple((0, int(p), "") if p.isdecimal() and p.isascii() else (1, 0, p)
                 for p in re.split(r"(\d+)", key) if p)  # fmt: skip
