"""Bytes of a log, piece by piece, to the few lines that are worth a look; memory stays bounded.

A line is looked at when it holds a word that some clue needs. All others are only counted.
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
    if sample and not sample.strip(b"\0"):
        raise NotText("it holds nothing but zero bytes")
    if not _is_text(sample.replace(b"\0", b"")):
        raise NotText("these bytes are no text in any encoding that a log would have")
    return None


def _is_text(sample: bytes) -> bool:
    odd = sum(byte < 32 and byte not in b"\t\n\r\x0b\x0c\x1b\b\a" for byte in sample)
    wrong = sample.decode(errors="replace").count("\ufffd")  # latin-1 logs have a few
    return odd + wrong <= max(2, 0.1 * len(sample))


class Hot:
    """Tells the lines that hold any of some words, whatever their case.

    Lines of a log repeat but for their numbers, so each form is looked at once: the digits of a
    line are made equal, and forms are remembered.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(sorted({word.lower().encode() for word in words}, key=len))
        self._cold: set[bytes] = set()
        self._warm: set[bytes] = set()

    def of(self, forms: list[bytes]) -> set[bytes]:
        """Those of the forms (lines with equal digits) that hold a word."""
        new = set(forms)
        warm = new & self._warm
        new -= self._warm
        new -= self._cold
        if new:
            fresh = self._holding(b"\n".join(new))
            warm |= fresh
            if len(self._cold) + len(self._warm) > _FORMS:
                self._cold.clear()
                self._warm.clear()
            short = {form for form in new if len(form) <= _SHORT}
            self._warm |= fresh & short
            self._cold |= short - fresh
        return warm

    def _holding(self, text: bytes) -> set[bytes]:
        low = text.lower()
        held = frozenset(low)
        found: set[bytes] = set()
        for word in self.words:
            if not held.issuperset(word):
                continue
            at = low.find(word)
            while at >= 0:
                end = low.find(b"\n", at)
                end = len(low) if end < 0 else end
                found.add(text[low.rfind(b"\n", 0, at) + 1 : end])
                at = low.find(word, end)
        return found


_EQUAL = bytes.maketrans(b"123456789", b"000000000")
_FORMS, _SHORT = 40_000, 600
"""Forms that are remembered, and bytes of the longest one: 24 MB at most."""


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
            block = rest + (chunk.replace(b"\0", b"") if b"\0" in chunk else chunk)
            cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1
            yield from self._block(block[:cut])
            rest = block[cut:]
            if len(rest) > LONGEST:  # an endless line: look at it, keep a little for what is cut
                yield from self._block(rest)
                rest = rest[-_OVERLAP:]
        if rest:
            yield from self._block(rest)
            self.lines += not rest.endswith(b"\n")
        if self.bytes == 0:
            raise NotText("the log is empty")

    def _block(self, block: bytes) -> Iterator[Line]:
        """What a carriage return divides are lines of one number; they end in it here."""
        ends = block.count(b"\n")
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\r\n")
            parted = True
        else:
            parted = False
        forms = block.translate(_EQUAL).split(b"\n")
        warm = self._hot.of(forms)
        if warm or self.hungry:
            parts = block.split(b"\n")
            places = [place for place, form in enumerate(forms) if form in warm]
            yield from self._worth(parts, places, parted)
        self.lines += ends

    def _worth(self, parts: list[bytes], places: list[int], parted: bool) -> Iterator[Line]:
        """The lines at the places, and those after them for as long as the reader is hungry."""
        here, number, counted, turn = 0, self.lines + 1, 0, 0
        while True:
            if not self.hungry:
                while turn < len(places) and places[turn] < here:
                    turn += 1
                if turn == len(places):
                    return
                here = places[turn]
            elif here >= len(parts):
                return
            if parted:
                number += sum(not part.endswith(b"\r") for part in parts[counted:here])
            else:
                number += here - counted
            counted, part = here, parts[here]
            for cut in range(0, len(part), LONGEST):
                yield Line(number, part[cut : cut + LONGEST].decode(errors="replace"))
            here += 1


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
