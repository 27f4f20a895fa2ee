"""The events of a profiler trace (Kineto, Chrome format), one after the other.

A trace is JSON of up to gigabytes; it is decoded event by event from a window of a few MiB. Older
exports hold control characters and unescaped backslashes in strings; both are taken as they are.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from reefwatch.core.errors import ReefwatchError

WINDOW = 1 << 20
"""Characters that are read at a time."""
LONGEST = 1 << 26
"""No event is longer than this: what cannot be decoded within it is no JSON."""
_START = re.compile(r'"traceEvents"\s*:\s*\[')
_DEVICES = re.compile(r'"deviceProperties"\s*:\s*')
_DECODER = json.JSONDecoder(strict=False)


class UnreadableTrace(ReefwatchError):
    """A file that is no profiler trace, or ends in the middle of one."""


class Events:
    """Iterates over the events of one trace file. Raises UnreadableTrace.

    `devices` is known once the first event was read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.devices: list[Mapping[str, Any]] = []
        self.count = 0
        self._text = ""
        self._at = 0
        self._ended = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            with self._open() as file:
                yield from self._events(file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._bad(f"the compressed file is damaged or cut short ({error})") from None
        except OSError as error:
            raise self._bad(error.strerror or str(error)) from None

    def _open(self) -> IO[bytes]:
        with self.path.open("rb") as file:
            magic = file.read(4)
        if not magic:
            raise self._bad("the file is empty")
        if magic[:2] == b"\x1f\x8b":
            return cast("IO[bytes]", gzip.open(self.path))
        if magic in (b"\x28\xb5\x2f\xfd", b"PK\x03\x04"):
            raise self._bad("unpack it first: only plain and gzip files are read")
        return self.path.open("rb")

    def _bad(self, why: str) -> UnreadableTrace:
        return UnreadableTrace(f"{self.path}: {why}")

    def _more(self, file: IO[bytes]) -> bool:
        """Read the next window; False at the end of the file."""
        if self._ended:
            return False
        raw = file.read(WINDOW)
        self._ended = not raw
        self._text = self._text[self._at :] + raw.decode("utf-8", "replace")
        self._at = 0
        return not self._ended

    def _events(self, file: IO[bytes]) -> Iterator[dict[str, Any]]:
        self._find_start(file)
        while True:
            event = self._next(file)
            if event is None:
                return
            if isinstance(event, dict):
                self.count += 1
                yield event

    def _find_start(self, file: IO[bytes]) -> None:
        """Go to the first event; what stands before it is read for the devices."""
        self._more(file)
        first = self._text.lstrip("\ufeff \t\r\n")[:1]
        if first == "[":
            self._at = self._text.index("[") + 1
            return
        if first != "{":
            raise self._bad("not JSON, so no profiler trace")
        while (found := _START.search(self._text)) is None:
            if len(self._text) > LONGEST or not self._more(file):
                raise self._bad("JSON, but without traceEvents: no profiler trace")
        head = _DEVICES.search(self._text, 0, found.start())
        if head is not None:
            try:
                told, _ = _DECODER.raw_decode(self._text, head.end())
            except ValueError:
                told = []
            self.devices = [one for one in told if isinstance(one, dict)]
        self._at = found.end()

    def _next(self, file: IO[bytes]) -> Any:
        """The next event; None behind the last."""
        while True:
            while self._text[self._at : self._at + 1] in (",", " ", "\n", "\r", "\t"):
                self._at += 1
            try:
                if self._text[self._at : self._at + 1] == "]":
                    return None
                event, self._at = _DECODER.raw_decode(self._text, self._at)
                return event
            except json.JSONDecodeError as error:
                if error.msg.startswith("Invalid \\"):
                    text, at = self._text, error.pos
                    at = text.rindex("\\", 0, at + 1)
                    if at + 6 < len(text):
                        self._text = text[:at] + "\\" + text[at:]
                        continue
                odd = self._text[self._at : self._at + 1] not in ("", "{")
                if odd or len(self._text) - self._at > LONGEST:
                    raise self._odd() from None
                if not self._more(file):
                    raise self._end() from None

    def _odd(self) -> UnreadableTrace:
        if self.count == 0:
            return self._bad("no events where traceEvents should be: no profiler trace")
        return self._bad(f"what follows event {self.count} is no event")

    def _end(self) -> UnreadableTrace:
        return self._bad(
            f"the trace ends in the middle, after {self.count} events; export it again "
            "(was the process killed while it wrote?)"
        )
