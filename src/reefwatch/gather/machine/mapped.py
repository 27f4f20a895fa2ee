"""Files that a running process has mapped, against what lies at their paths now."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from reefwatch.gather.machine.digests import mark

_ROW = re.compile(r"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+)\s+(/.*)$")
_GONE = " (deleted)"


def rows(text: str) -> dict[str, int]:
    """Path -> inode of the files in a `/proc/<pid>/maps`."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        match = _ROW.match(line)
        if match is not None and int(match[3]):
            found.setdefault(match[4], int(match[3]))
    return found


def replaced(maps: str, marks: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """Which of the locked `paths` are not, any more, the files that the process has mapped.

    `marks` are those of the digests: [device, inode, size, mtime, digest] by path.
    """
    mapped = rows(maps)
    changed, looked = [], 0
    for path in paths:
        real = os.path.realpath(path)
        inode = mapped.get(real, mapped.get(path))
        gone = next((mapped[p + _GONE] for p in (real, path) if p + _GONE in mapped), None)
        if inode is None and gone is None:
            continue
        looked += 1
        why = _why(path, inode, gone, marks.get(path))
        if why:
            changed.append({"path": path, "why": why})
    return {"looked": looked, "replaced": changed}


def _why(path: str, inode: int | None, gone: int | None, kept: Any) -> str:
    if gone is not None:
        return "the file in use was deleted or replaced"
    try:
        now = mark(os.stat(path))
    except OSError as error:
        return f"it cannot be read any more ({error.strerror or error})"
    if now[1] != inode:
        return "another file lies at its path than the one in use"
    if isinstance(kept, list) and now != kept[:4]:
        return "it was written to since it was checked"
    return ""
