"""Files that a running process has mapped, against what lies at their paths now."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from reefwatch.gather.machine.digests import mark

_ROW = re.compile(r"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+)\s+(/.*)$")
_GONE = " (deleted)"


def rows(text: str) -> dict[str, tuple[int, int]]:
    """Path -> (device, inode) of the files in a `/proc/<pid>/maps`."""
    found: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        match = _ROW.match(line)
        if match is not None and int(match[3]):
            device = os.makedev(int(match[1], 16), int(match[2], 16))
            found.setdefault(match[4], (device, int(match[3])))
    return found


def replaced(maps: str, marks: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """Which of the locked `paths` are not, any more, the files that the process has mapped.

    `marks` are those of the digests: [device, inode, size, mtime, digest] by path. An upgrade moves
    the old file aside, so a mapped file is also looked for by device and inode.
    """
    mapped = rows(maps)
    by_inode = {place: path for path, place in mapped.items()}
    changed, looked = [], 0
    for path in paths:
        real, kept = os.path.realpath(path), marks.get(path)
        was = (kept[0], kept[1]) if isinstance(kept, list) and len(kept) == 5 else None
        names = [name for name in (real, path, real + _GONE, path + _GONE) if name in mapped]
        elsewhere = by_inode.get(was) if was else None
        if not names and elsewhere is None:
            continue
        looked += 1
        why = _why(path, names[0] if names else str(elsewhere), mapped, kept)
        if why:
            changed.append({"path": path, "why": why})
    return {"looked": looked, "replaced": changed}


def _why(path: str, name: str, mapped: Mapping[str, tuple[int, int]], kept: Any) -> str:
    if name.endswith(_GONE):
        return "the file in use was deleted or replaced"
    try:
        now = mark(os.stat(path))
    except OSError as error:
        return f"it cannot be read any more ({error.strerror or error})"
    if now[1] != mapped[name][1]:
        return "another file lies at its path than the one in use"
    if isinstance(kept, list) and now != kept[:4]:
        return "it was written to since it was checked"
    return ""
