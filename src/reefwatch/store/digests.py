"""The digests of files as they were last seen, kept between commands."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

_MOST = 400_000


def place(environ: Any = os.environ) -> Path:
    """The file: below XDG_CACHE_HOME, or `~/.cache`."""
    root = environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "reefwatch" / "digests.json"


def load(path: Path) -> dict[str, Any]:
    """Path -> [device, inode, size, mtime, digest]; empty when there is nothing sound."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def save(path: Path, kept: dict[str, Any]) -> str:
    """Write them whole or not at all; why not, empty when it was done."""
    if len(kept) > _MOST:
        kept = dict(list(kept.items())[-_MOST:])
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(kept, separators=(",", ":")), encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        return f"{path}: {error.strerror or error}; the next check reads all files again"
    return ""
