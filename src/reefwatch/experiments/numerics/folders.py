"""Copies of the working folder: each line of runs writes its checkpoints into one of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from reefwatch.core.errors import UsageError

LEFT_OUT = frozenset(
    (".git", ".venv", "venv", "__pycache__", "node_modules", "reefwatch-runs", ".mypy_cache")
)
MOST = 2 << 30
"""Bytes that are copied without being asked to."""


def weigh(folder: Path, linked: Sequence[str], most: int = MOST) -> int:
    """Bytes that a copy takes. Raises UsageError beyond `most`, with the largest entries."""
    sizes = {
        entry.name: _size(Path(entry.path))
        for entry in os.scandir(folder)
        if entry.name not in LEFT_OUT and entry.name not in linked
    }
    total = sum(sizes.values())
    if total > most:
        large = sorted(sizes, key=lambda name: -sizes[name])[:3]
        raise UsageError(
            f"{folder} has {total / 1e9:.1f} GB, and each of two lines of runs works in a copy of "
            f"it: --link what is only read (large here: {', '.join(large)})"
        )
    return total


def copy(folder: Path, place: Path, linked: Sequence[str]) -> None:
    """A copy of `folder` at `place`; what is named in `linked` is a link to the original."""
    place.mkdir(parents=True)
    for entry in os.scandir(folder):
        there, here = Path(entry.path), place / entry.name
        if entry.name in LEFT_OUT or here == place or there == place:
            continue
        if entry.name in linked or entry.is_symlink():
            here.symlink_to(there.resolve())
        elif entry.is_dir() or entry.is_file():
            _cheaply(there, here)


def _cheaply(there: Path, here: Path) -> None:
    """With shared blocks where the disk can."""
    done = subprocess.run(
        ["cp", "-a", "--reflink=auto", str(there), str(here)], capture_output=True, check=False
    )
    if done.returncode and there.is_dir():
        shutil.copytree(there, here, symlinks=True, dirs_exist_ok=True)
    elif done.returncode:
        shutil.copy2(there, here)


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    total = 0
    for at, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        total += sum(os.lstat(os.path.join(at, name)).st_size for name in files)
    return total
