"""The end screen on a terminal or a pipe."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from reefwatch.core.report import Report


def text(report: Report, stream: TextIO | None) -> str:
    """The report as text, with colour and width as the stream can show them."""
    from shutil import get_terminal_size

    from reefwatch.show import text as as_text

    color = is_terminal(stream) and not os.environ.get("NO_COLOR")
    width = min(get_terminal_size((100, 24)).columns, 120)
    return str(as_text.render(report, color=color, width=width, ascii=not _has_marks(stream)))


def _has_marks(stream: TextIO | None) -> bool:
    """True when the stream's encoding can write more than ASCII."""
    try:
        "✓·".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True


def is_terminal(stream: TextIO | None) -> bool:
    """True when the stream is a terminal that understands control sequences."""
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return False


def flush_stdout() -> None:
    """Let what the script printed come before the end screen. Failures are left to the exit."""
    with suppress(Exception):
        sys.stdout.flush()
