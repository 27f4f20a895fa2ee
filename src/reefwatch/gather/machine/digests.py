"""Digests of files, kept by inode, size and time of change, so that the next look reads nothing."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, MutableMapping
from typing import Any

from reefwatch.core.fact import Unknown

_STEP = 1 << 20


class Digests:
    """SHA-256 of files. `cache` maps a path to [device, inode, size, mtime in ns, digest]."""

    def __init__(self, cache: MutableMapping[str, Any], paranoid: bool = False) -> None:
        self.cache, self.paranoid = cache, paranoid
        self.read = 0
        """Files whose bytes were read."""
        self.known = 0
        """Files whose digest was known by inode, size and time."""

    def of(self, path: str) -> str | Unknown:
        """`sha256:...` of a regular file."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return Unknown(f"{path}: {error.strerror or error}")
        try:
            before = os.fstat(handle)
            if not stat.S_ISREG(before.st_mode):
                return Unknown(f"{path} is not a regular file")
            key = mark(before)
            kept = self.cache.get(path)
            if not self.paranoid and isinstance(kept, list) and kept[:4] == key and len(kept) == 5:
                self.known += 1
                return str(kept[4])
            made = hashlib.sha256()
            while piece := os.read(handle, _STEP):
                made.update(piece)
            self.read += 1
            digest = f"sha256:{made.hexdigest()}"
            if mark(os.fstat(handle)) != key:
                return Unknown(f"{path} is being written")
            self.cache[path] = [*key, digest]
            return digest
        except OSError as error:
            return Unknown(f"{path}: {error.strerror or error}")
        finally:
            os.close(handle)

    def tree(self, root: str, paths: Iterable[str]) -> str | Unknown:
        """One digest over many files: of their names below `root` and their own digests."""
        made, count = hashlib.sha256(), 0
        for path in sorted(paths):
            digest = self.of(path)
            if isinstance(digest, Unknown):
                return digest
            made.update(
                f"{os.path.relpath(path, root)}\0{digest}\n".encode("utf-8", "backslashreplace")
            )
            count += 1
        return f"{count} files, sha256:{made.hexdigest()}"


def mark(status: os.stat_result) -> list[int]:
    """By what a file is recognised without reading it."""
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]
