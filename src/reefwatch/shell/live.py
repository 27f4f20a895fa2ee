"""A quiet live line on stderr while the run goes on: on a terminal only, no thread."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from time import monotonic
from typing import Any, TextIO

from reefwatch.shell.screen import STDERR, is_terminal

_EVERY = 0.5
"""Seconds between two drawings."""


class Live:
    """Called with a status at step boundaries, on the thread that trains."""

    def __init__(self, stream: TextIO | None) -> None:
        self._console: Any = None
        self._drawn = False
        self._next = 0.0
        if is_terminal(stream):
            from rich.console import Console

            self._console = Console(file=stream, highlight=False, soft_wrap=False)

    def __call__(self, status: Mapping[str, Any]) -> None:
        """Draw the line, at most twice a second, and not under somebody else's progress bar."""
        if self._console is None or monotonic() < self._next:
            return
        if self._console.file is STDERR.stream and not STDERR.open():
            self._console, self._drawn = None, False
            return
        self._next = monotonic() + _EVERY
        if "tqdm" in sys.modules:
            return
        from rich.text import Text

        self.clear()
        # the cursor stays at the line's start, so the script's next print goes over it
        line = Text("reefwatch " + words(status), style="dim", no_wrap=True, overflow="ellipsis")
        line.truncate(self._console.width - 1)
        self._console.print(line, end="\r")
        self._drawn = True

    def clear(self) -> None:
        """Take the line away."""
        if self._drawn:
            from rich.control import Control
            from rich.segment import ControlType

            self._console.control(Control((ControlType.ERASE_IN_LINE, 2)))
            self._drawn = False


def words(status: Mapping[str, Any]) -> str:
    """A status of the Watch as one line: `exam · step 120 · 43.1 ms a step · 20 examined`."""
    parts = ["exam"] if status.get("exam") else []
    parts.append(f"step {status.get('step', 0):,}")
    seconds = status.get("step_seconds")
    if seconds:
        parts.append(f"{seconds * 1000:.1f} ms a step")
    parts.append(f"{status.get('examined', 0):,} examined")
    return " · ".join(parts)
