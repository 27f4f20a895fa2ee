"""A file, a part of one, or a member of a zip, looked at from its start to its end.

Never more than one window is in memory, whatever sizes the data claims.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from typing import IO

LARGEST = 1 << 18
"""Bytes that can be looked at ahead."""
_STEP = 1 << 20
_KEPT = 1 << 20
"""Bytes of the end of a stream that are kept: section headers mostly stand there."""


class Window(ABC):
    """Bytes ahead of a position that only moves forward."""

    def __init__(self, room: int) -> None:
        self.position = 0
        self.room = room
        """Bytes between here and the end, by what the container says."""
        self._ahead = b""

    def peek(self, count: int) -> bytes:
        """So many bytes from here on (at most LARGEST), fewer at the end."""
        missing = min(count, LARGEST) - len(self._ahead)
        if missing > 0:
            self._ahead += self._read(min(missing, max(0, self.room - len(self._ahead))))
        return self._ahead[:count]

    def skip(self, count: int) -> None:
        """Move on; not beyond the end."""
        count = min(count, self.room)
        self.position += count
        self.room -= count
        dropped = min(count, len(self._ahead))
        self._ahead = self._ahead[dropped:]
        if count > dropped:
            self._drop(count - dropped)

    @abstractmethod
    def _read(self, count: int) -> bytes:
        """So many bytes behind what was read last, fewer only at the end."""

    @abstractmethod
    def _drop(self, count: int) -> None:
        """Pass over so many bytes behind what was read last."""


class FileWindow(Window):
    """`size` bytes of an open file, from `start` on."""

    def __init__(self, handle: int, start: int, size: int) -> None:
        super().__init__(size)
        self._handle, self._at = handle, start

    def _read(self, count: int) -> bytes:
        raw = read_at(self._handle, self._at, count)
        self._at += len(raw)
        if len(raw) < count:  # shorter than the container says
            self.room = len(self._ahead) + len(raw)
        return raw

    def _drop(self, count: int) -> None:
        self._at += count


class StreamWindow(Window):
    """What can only be read forward: a compressed member of a zip."""

    def __init__(self, stream: Rereader, size: int) -> None:
        super().__init__(size)
        self._stream = stream

    def _read(self, count: int) -> bytes:
        raw = b""
        while len(raw) < count and (part := self._stream.read(count - len(raw))):
            raw += part
        if len(raw) < count:
            self.room = len(self._ahead) + len(raw)
        return raw

    def _drop(self, count: int) -> None:
        while count > 0 and (part := self._stream.read(min(count, _STEP))):
            count -= len(part)
        if count > 0:
            self.room = 0


class Rereader:
    """A stream that is read forward, and of which a place can be read again afterwards."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._end = self._size = 0
        self._last: deque[bytes] = deque()

    def read(self, count: int) -> bytes:
        raw = self._stream.read(count)
        self._end += len(raw)
        self._size += len(raw)
        self._last.append(raw)
        while self._size - len(self._last[0]) >= _KEPT:
            self._size -= len(self._last.popleft())
        return raw

    def again(self, offset: int, count: int) -> bytes:
        """So many bytes from a place, fewer at the end. What was long ago is unpacked anew."""
        begun = self._end - self._size
        if offset >= begun:
            at = offset - begun
            return b"".join(self._last)[at : at + count]
        self._stream.seek(offset)
        return self._stream.read(count)


def read_at(handle: int, offset: int, count: int) -> bytes:
    """So many bytes of an open file, fewer at its end and beyond it."""
    if offset >= 1 << 62:
        return b""
    raw = b""
    while len(raw) < count and (part := os.pread(handle, count - len(raw), offset + len(raw))):
        raw += part
    return raw
