"""A baseline: the findings that are known today, so that only new ones are told from now on.

A JSON file, meant to be committed and read by people:

    {"schema": 1, "silences": [{"code", "fingerprint", "module", "op", "file", "message", "reason",
                                "expires" (may be missing)}]}

Only code, fingerprint, reason and expires count; the rest says what it is about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.core.finding import Finding
from reefwatch.core.report import Report
from reefwatch.core.silence import Silence, fingerprint
from reefwatch.store import regular

FILE_NAME = "reefwatch-baseline.json"
SCHEMA = 1
_TEXT = ("code", "fingerprint", "reason")


def write(report: Report, path: Path, reason: str, expires: date | None = None) -> int:
    """Write all findings of the report as silenced for this reason; how many there are.

    Entries of an earlier baseline at that path whose findings are still there keep their own
    reason; those that match nothing any more are dropped.
    Raises UsageError without a reason, ReefwatchError when the file cannot be written.
    """
    if not reason.strip():
        raise UsageError("a baseline needs a reason (--reason)")
    before = {entry["fingerprint"]: entry for entry in _entries(path)} if path.is_file() else {}
    entries: dict[str, Mapping[str, Any]] = {}
    for outcome in report.outcomes:
        for finding, _ in outcome.silenced:
            mark = fingerprint(outcome.code, finding)
            if mark in before:
                entries[mark] = before[mark]
        for finding in outcome.findings:
            entry = _entry(outcome.code, finding, reason, expires)
            entries.setdefault(entry["fingerprint"], entry)
    ordered = sorted(entries.values(), key=lambda entry: (entry["code"], entry["fingerprint"]))
    text = json.dumps({"schema": SCHEMA, "silences": ordered}, indent=2) + "\n"
    try:
        regular.written(path, text)
    except OSError as error:
        raise ReefwatchError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    return len(ordered)


def _entry(code: str, finding: Finding, reason: str, expires: date | None) -> dict[str, Any]:
    place = finding.place
    entry = {
        "code": code,
        "fingerprint": fingerprint(code, finding),
        "module": place.module,
        "op": place.op,
        "file": place.file.rsplit("/", 1)[-1],
        "message": finding.message,
        "reason": reason,
    }
    return entry if expires is None else {**entry, "expires": expires.isoformat()}


def read(path: Path) -> tuple[Silence, ...]:
    """The silences of a baseline. Raises UsageError, with file and entry, when it is not one."""
    return tuple(
        Silence(
            entry["code"],
            entry["reason"],
            path.name,
            expires=date.fromisoformat(entry["expires"]) if "expires" in entry else None,
            fingerprint=entry["fingerprint"],
        )
        for entry in _entries(path)
    )


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not a baseline (no JSON)") from None
    if not isinstance(content, dict) or not isinstance(content.get("silences"), list):
        raise UsageError(f"{path}: not a baseline")
    schema = content.get("schema")
    if schema != SCHEMA:
        raise UsageError(f"{path}: a baseline of schema {schema!r}, this reefwatch reads {SCHEMA}")
    entries = content["silences"]
    for number, entry in enumerate(entries, 1):
        _check(entry, f"{path}, silence {number}")
    return list(entries)


def _check(entry: Any, origin: str) -> None:
    if not isinstance(entry, dict):
        raise UsageError(f"{origin}: must be an object")
    for key in _TEXT:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise UsageError(f"{origin}: {key}: a silence needs one")
    try:
        date.fromisoformat(entry.get("expires", "2000-01-01"))
    except (TypeError, ValueError):
        raise UsageError(f"{origin}: expires: not a date like 2030-12-31") from None
