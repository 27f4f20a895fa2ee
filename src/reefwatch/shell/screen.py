"""The end screen on a terminal or a pipe."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from reefwatch.core.report import Report

_fstat, _write = os.fstat, os.write  # kept: the program may mock os


class Stderr:
    """Stderr as it was when Reefwatch started, whatever the program makes of it.

    It is written by number, past `print` and `sys`, which the program may replace; and no more
    once the number is closed or stands for another file.
    """

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self._number: int | None = None
        self._file: tuple[int, int] | None = None

    def keep(self) -> TextIO | None:
        """Take today's `sys.stderr`; it is returned, None when there is none."""
        self.stream, self._number = sys.stderr, None
        with suppress(OSError, ValueError, AttributeError):
            self._number = sys.stderr.fileno()
            self._file = _file(self._number)
        return self.stream

    def open(self) -> bool:
        """True while it is what it was."""
        if self._number is None:
            return self.stream is not None
        try:
            return _file(self._number) == self._file
        except OSError:
            return False

    def write(self, text: str) -> None:
        """Write all of it, or give up in silence."""
        with suppress(OSError, ValueError, AttributeError):
            if self.stream is None or not self.open():
                return
            encoding = getattr(self.stream, "encoding", None) or "utf-8"
            try:
                rest = text.encode(encoding, self.stream.errors or "backslashreplace")
            except (UnicodeError, AttributeError):  # a name that is no text, on a strict stream
                rest = text.encode(encoding, "backslashreplace")
            if self._number is None:
                self.stream.write(rest.decode(encoding))
                self.stream.flush()
                return
            with suppress(OSError, ValueError, AttributeError):
                self.stream.flush()  # what the program has said first
            while rest:
                rest = rest[_write(self._number, rest) :]


def _file(number: int) -> tuple[int, int]:
    status = _fstat(number)
    return status.st_dev, status.st_ino


STDERR = Stderr()
"""Kept when a command starts."""


def text(report: Report, stream: TextIO | None) -> str:
    """The report as text, with colour and width as the stream can show them."""
    from shutil import get_terminal_size

    from reefwatch.show import text as as_text

    color = is_terminal(stream) and not os.environ.get("NO_COLOR")
    width = min(get_terminal_size((100, 24)).columns, 120)
    return str(as_text.render(report, color=color, width=width, ascii=not has_marks(stream)))


def has_marks(stream: TextIO | None) -> bool:
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
