"""Bytes to lines: numbers, pieces, encodings, and what is no log."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefwatch.triage.stream import LONGEST, Hot, NotText, Stream, as_utf8, lines

WORDS = ("error", "hip")


def seen(chunks: list[bytes]) -> list[tuple[int, str]]:
    return [(line.number, line.text.rstrip("\r")) for line in Stream(chunks, Hot(WORDS))]


def expected(text: bytes) -> list[tuple[int, str]]:
    """The same by looking at each line."""
    return [
        (number, part.decode())
        for number, line in enumerate(text.split(b"\n"), 1)
        for part in line.split(b"\r")
        if re.search(b"error|hip", part, re.IGNORECASE)
    ]


@given(
    st.lists(st.sampled_from(["error 12", "a hip b", "HIP", "loss 1.5", "", "x" * 50, "\rerror"])),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
)
def test_the_lines_with_a_word_in_any_chunks(parts, end, size):
    text = end.join(parts).encode()
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    if text:
        assert seen(chunks) == expected(text)


def test_lines_that_differ_in_digits_are_all_there():
    text = b"".join(b"step %d error %d\nloss %d\n" % (n, n, n) for n in range(3000))
    assert len(seen([text])) == 3000
    assert seen([text])[-1] == (5999, "step 2999 error 2999")


def test_a_hungry_reader_gets_every_next_line():
    stream, got = Stream([b"a\nerror\nb\nc\nd\nerror\ne\n"], Hot(WORDS)), []
    for line in stream:
        got.append((line.number, line.text))
        stream.hungry = line.text in ("error", "b") and line.number < 4
    assert got == [(2, "error"), (3, "b"), (4, "c"), (6, "error")]
    assert stream.lines == 7


def test_carriage_returns_divide_a_line_and_do_not_count():
    assert seen([b"0%\r50%\rhip error\r100%\nerror\r\n"]) == [(1, "hip error"), (2, "error")]


def test_an_endless_line_is_looked_at_piece_by_piece():
    def chunks():
        for number in range(40):
            yield b"x" * LONGEST + (b" HIP error here " if number == 20 else b"")

    stream = Stream(chunks(), Hot(WORDS))
    found = [line.text for line in stream]
    assert any("HIP error here" in text for text in found)
    assert max(map(len, found)) <= LONGEST and stream.lines == 1


def test_a_word_that_the_chunks_cut_apart_is_found():
    assert seen([b"a h", b"ip er", b"ror b\n"]) == [(1, "a hip error b")]


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_wide_encodings_are_read(coding):
    raw = "loss\nHIP error: é\n".encode(coding)
    pieces = [raw[at : at + 3] for at in range(0, len(raw), 3)]
    assert seen(pieces) == [(2, "HIP error: é")]


def test_nul_bytes_are_passed_over():
    assert seen([b"\0" * 5 + b"a\nhip\0 error\n" + b"\0" * 9]) == [(2, "hip error")]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\x7fELF\x02\x01" + bytes(100), "ELF"),
        (b"PK\x03\x04" + bytes(100), "zip archive"),
        (bytes(range(256)) * 20, "no text"),
        (b"", "empty"),
    ],
)
def test_what_is_no_log_says_what_it_is(raw, words):
    with pytest.raises(NotText, match=words):
        list(Stream([raw] if raw else [], Hot(WORDS)))


def test_latin_1_is_a_log_too():
    assert seen(["Fehler: größer als erlaubt, error\n".encode("latin-1") * 3])[0][0] == 1


def test_all_lines_are_shown_as_a_terminal_does():
    text = b"a\n0%\r50%\r100%\r\n\nlast"
    assert list(lines([text])) == ["a", "100%", "", "last"]
    assert b"".join(as_utf8([text])) == text
