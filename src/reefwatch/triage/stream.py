"""Bytes of a log, piece by piece, to the few lines that are worth a look; memory stays bounded.

A line is looked at when it holds a word that some clue needs. All others are passed over with
`bytes.find`, and only counted.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BLOCK = 1 << 20
LONGEST = 1 << 16
"""Bytes of one line that are looked at in one piece; a longer one comes in several."""
_OVERLAP = 1 << 11
_MAGIC = (
    (b"\x7fELF", "an ELF program or library"),
    (b"PK\x03\x04", "a zip archive (a wheel, or a torch checkpoint)"),
    (b"\x89PNG", "a PNG picture"),
    (b"%PDF", "a PDF document"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive: unpack it first"),
)


@dataclass(frozen=True)
class Line:
    """A line as read."""

    number: int
    """From 1; what carriage returns divide has one number."""
    text: str


class NotText(ValueError):
    """The bytes are no log; says what they look like."""


def as_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks in UTF-8, without byte order mark. Raises NotText for bytes that are no text."""
    source = iter(chunks)
    first = b""
    for chunk in source:
        first += chunk
        if len(first) >= 4096:
            break
    coding = _coding(first)
    if coding is None:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from source
        return
    decoder = codecs.getincrementaldecoder(coding)(errors="replace")
    yield decoder.decode(first).lstrip("\ufeff").encode(errors="replace")
    for chunk in source:
        yield decoder.decode(chunk).encode(errors="replace")


def _coding(first: bytes) -> str | None:
    """The codec for a wide encoding; None for UTF-8 and its like. Raises NotText."""
    for magic, what in _MAGIC:
        if first.startswith(magic):
            raise NotText(f"this is {what}, not a log")
    if first.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = first[:4096]
    if len(sample) >= 8:
        for coding, letters in (("utf-16-le", sample[0::2]), ("utf-16-be", sample[1::2])):
            zeros = sample[1::2] if coding == "utf-16-le" else sample[0::2]
            if zeros.count(0) > 0.8 * len(zeros) and letters.count(0) < 0.1 * len(letters):
                return coding
    if not _is_text(sample.replace(b"\0", b"")):
        raise NotText("these bytes are no text in any encoding that a log would have")
    return None


def _is_text(sample: bytes) -> bool:
    odd = sum(byte < 32 and byte not in b"\t\n\r\x0b\x0c\x1b\b\a" for byte in sample)
    wrong = sample.decode(errors="replace").count("\ufffd")  # latin-1 logs have a few
    return odd + wrong <= max(2, 0.1 * len(sample))


class Hot:
    """Finds the lines of a block that hold any of some words, whatever their case."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(sorted({word.lower().encode() for word in words}))

    def starts(self, block: bytes) -> list[int]:
        """Where the lines with a word start, in order."""
        low = block.lower()
        found: set[int] = set()
        for word in self.words:
            at = low.find(word)
            while at >= 0:
                found.add(max(low.rfind(b"\n", 0, at), low.rfind(b"\r", 0, at)) + 1)
                at = low.find(word, _line_end(low, at))
        return sorted(found)


def _line_end(block: bytes, at: int) -> int:
    """The end of the line, of the part before a carriage return, around a position."""
    end = block.find(b"\n", at)
    end = len(block) if end < 0 else end
    back = block.find(b"\r", at, end)
    return end if back < 0 else back


class Stream:
    """The lines of one log that are worth a look.

    `hungry` is set by the reader of the lines while it wants every next one, as inside a traceback.
    """

    def __init__(self, chunks: Iterable[bytes], hot: Hot) -> None:
        self._chunks, self._hot = as_utf8(chunks), hot
        self.hungry = False
        self.lines = 0
        """Line ends seen so far; all lines once the stream is read."""
        self.bytes = 0
        self.tail = b""
        """The last bytes, where a run that ended well shows it."""

    def __iter__(self) -> Iterator[Line]:
        rest = b""
        for chunk in self._chunks:
            self.bytes += len(chunk)
            self.tail = (self.tail + chunk)[-LONGEST:] if len(chunk) < LONGEST else chunk[-LONGEST:]
            block = rest + chunk.replace(b"\0", b"")
            cut = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            if not cut and len(block) > LONGEST:  # an endless line: look at it, keep a little
                yield from self._block(block)
                rest = block[-_OVERLAP:]
                continue
            yield from self._block(block[:cut])
            rest = block[cut:]
            if len(rest) > LONGEST:
                yield from self._block(rest)
                rest = rest[-_OVERLAP:]
        if rest:
            yield from self._block(rest)
            self.lines += 1
        if self.bytes == 0:
            raise NotText("the log is empty")

    def _block(self, block: bytes) -> Iterator[Line]:
        starts = self._hot.starts(block)
        here, number, turn = 0, self.lines + 1, 0
        while here < len(block):
            while turn < len(starts) and starts[turn] < here:
                turn += 1
            if not self.hungry:
                if turn == len(starts):
                    break
                number += block.count(b"\n", here, starts[turn])
                here = starts[turn]
            end = _line_end(block, here)
            yield Line(number, block[here : min(end, here + LONGEST)].decode(errors="replace"))
            number += block.startswith(b"\n", end)
            here = end + 1
        self.lines += block.count(b"\n")


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Every line of a log; what a carriage return overwrote is left out, as a terminal does.

    A line of more than `LONGEST` bytes comes in pieces. Raises NotText.
    """
    rest, empty = b"", True
    for chunk in as_utf8(chunks):
        empty = empty and not chunk
        parts = (rest + chunk.replace(b"\0", b"")).split(b"\n")
        rest = parts.pop()
        for part in parts:
            yield _shown(part)
        while len(rest) > LONGEST:
            yield _shown(rest[:LONGEST])
            rest = rest[LONGEST:]
    if rest:
        yield _shown(rest)
    if empty:
        raise NotText("the log is empty")


def _shown(line: bytes) -> str:
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")
