"""Files, as against pipes and devices: those block or never end, and must not be replaced."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from pathlib import Path
from typing import BinaryIO


def opened(path: Path) -> BinaryIO:
    """The file, for reading. Raises OSError, and ValueError for a name that no file can have."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise OSError("a folder" if stat.S_ISDIR(mode) else "not a file")
    return os.fdopen(fd, "rb")


def source(path: Path) -> str:
    """What is written in a Python file. Raises OSError, SyntaxError and ValueError."""
    with opened(path) as file:
        raw = io.BytesIO(file.read())
    encoding, _ = tokenize.detect_encoding(raw.readline)
    raw.seek(0)
    return io.TextIOWrapper(raw, encoding=encoding).read()


def written(path: Path, text: str) -> None:
    """Write a text file whole or not at all; into a pipe or device (/dev/stdout) as it is there.

    Raises OSError.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = Path(os.path.realpath(path))  # what a link points to, not the link
    draft = path.with_name(f".{path.name[:200]}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
