"""reefwatch.lock: TOML with one line for each thing, in a fixed order, made to be diffed."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UnreadableRecord, UsageError
from reefwatch.store import regular

SCHEMA = 1
NAME = "reefwatch.lock"
SECTIONS = (
    *("system", "gpu", "firmware", "rocm", "packages", "tags", "commits", "libraries"),
    *("databases", "sources", "flags", "environment", "unknown"),
)
_ABOUT = ("schema", "made", "by")
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
    """Write the file whole or not at all, over a lock or over nothing. Raises UsageError."""
    try:
        if os.path.lexists(path) and not _is_lock(path):
            raise UsageError(f"{path} is no lock, and is not written over")
        regular.written(path, content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None


def _is_lock(path: Path) -> bool:
    """Whether a file was written as a lock, damaged as it may be. Raises OSError, UsageError."""
    with regular.opened(path) as file:
        if file.read(400).removeprefix(codecs.BOM_UTF8).startswith(f"# {_HEAD}".encode()):
            if _schema(path) > SCHEMA:
                raise UsageError(f"{path} was written by a newer version, and is not written over")
            return True
    try:
        return str(_parsed(path).get("by", "")).startswith("reefwatch")
    except UnreadableRecord:
        return False


def _schema(path: Path) -> int:
    """The schema that a lock names; 0 where it is too damaged to name one."""
    try:
        told = _parsed(path).get("schema")
    except UnreadableRecord:
        return 0
    return told if isinstance(told, int) else 0


def _parsed(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with regular.opened(path) as file:
            told: dict[str, Any] = tomllib.loads(file.read().decode("utf-8-sig"))
    except OSError as error:
        raise UnreadableRecord(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8
        raise UnreadableRecord(f"{path} is no lock: {error}") from None
    return told


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The sections. Raises UnreadableRecord for what is no lock, or one of a newer version."""
    told = _parsed(path)
    schema = told.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise UnreadableRecord(f"{path} is no lock: it names no schema")
    if schema > SCHEMA:
        raise UnreadableRecord(f"{path} was written by a newer version (schema {schema})")
    parts = {name: part for name, part in told.items() if name not in _ABOUT}
    wrong = [name for name, part in parts.items() if not isinstance(part, dict)]
    if wrong:
        raise UnreadableRecord(f"{path} is no lock: {wrong[0]} is no table")
    return parts


def _by_number(key: str) -> tuple[Any, ...]:
    return tuple((0, int(p), "") if p.isdecimal() and p.isascii() else (1, 0, p)
                 for p in re.split(r"(\d+)", key) if p)  # fmt: skip
