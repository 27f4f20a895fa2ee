"""Whatever happens to a record's bytes is found, told in words, and costs as little as possible."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefwatch.core.errors import UnreadableRecord
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.record import Record
from reefwatch.store import lines
from reefwatch.store.reader import read
from reefwatch.store.writer import Writer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    writer = Writer(tmp_path_factory.mktemp("run"), {"rank": 0, "world": 1, "run_id": "r"})
    writer.fact("run.steps", Evidence("run.steps", {"count": 3}))
    writer.event("loop.loss", {"values": [0.5, float("nan")]}, step=1)
    writer.event("loop.loss", {"values": [0.25]}, step=2)
    writer.fact("precision.ops", Evidence("precision.ops", 7, "ops", "dispatch"))
    writer.fact("run.steps", Evidence("run.steps", {"count": 9}))
    writer.close()
    assert writer.path is not None
    return writer.path


def after(whole: Path, folder: Path, change: Callable[[list[bytes]], list[bytes]]) -> Record:
    path = folder / "rank0.jsonl"
    path.write_bytes(b"".join(change(whole.read_bytes().splitlines(keepends=True))))
    return read(path)


def test_the_whole_one_has_no_remark(whole: Path) -> None:
    record = read(whole)
    assert record.complete and record.remarks == () and record.damage == ""


def test_every_changed_byte_is_found(whole: Path, tmp_path: Path) -> None:
    raw, path = whole.read_bytes(), tmp_path / "rank0.jsonl"
    found = {"damage": 0, "cut": 0, "unreadable": 0}
    for at in range(len(raw)):
        for new in {raw[at] ^ 1, raw[at] ^ 0x80, 0x0A, 0x22} - {raw[at]}:
            path.write_bytes(raw[:at] + bytes([new]) + raw[at + 1 :])
            try:
                record = read(path)
            except UnreadableRecord as error:
                assert "\n" not in str(error)
                assert at < raw.index(b"\n") + 1
                found["unreadable"] += 1
                continue
            assert not record.complete
            assert len(record.remarks) == 1
            found["damage" if record.damage else "cut"] += 1
    assert min(found.values()) > 0


def test_every_cut_is_found(whole: Path, tmp_path: Path) -> None:
    raw, path = whole.read_bytes(), tmp_path / "rank0.jsonl"
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        try:
            record = read(path)
        except UnreadableRecord:
            assert length < raw.index(b"\n")
            continue
        if length == len(raw) - 1:  # only the last newline is gone
            assert repr(record) == repr(read(whole))
            continue
        assert not record.complete and not record.damage
        assert "killed" in record.remarks[0]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_junk_within_is_found_or_harmless(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = whole.read_bytes()
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, len(raw)))
    junk = data.draw(st.binary(max_size=40) | st.just(raw[: end - start]))
    path = tmp_path_factory.mktemp("junk") / "rank0.jsonl"
    path.write_bytes(raw[:start] + junk + raw[end:])
    try:
        record = read(path)
    except UnreadableRecord as error:
        assert "\n" not in str(error)
        return
    if not record.remarks:
        assert repr(record) == repr(read(whole))
    else:
        assert not record.complete


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200)
    | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace"))
)
def test_what_is_no_record_is_refused(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes
) -> None:
    path = tmp_path_factory.mktemp("junk") / "rank0.jsonl"
    path.write_bytes(junk)
    with pytest.raises(UnreadableRecord):
        read(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda rows: [*rows[:3], rows[3].replace(b"0.25", b"0.75"), *rows[4:]],
            "line 4 was changed",
        ),
        (lambda rows: [*rows[:3], *rows[4:]], "line 4 was removed"),
        (lambda rows: [*rows[:2], *rows[4:]], "lines 3 to 4 were removed"),
        (lambda rows: [*rows[:2], rows[3], rows[2], *rows[4:]], "lines are out of order"),
        (lambda rows: [*rows[:3], rows[2], *rows[3:]], "line 3 comes again after line 3"),
        (lambda rows: [*rows[:2], b"hello\n", *rows[2:]], "line 3 is not a line of a record"),
        (lambda rows: [*rows, rows[-1]], "something follows the end line 7"),
        (lambda rows: [*rows, b"x"], "something follows the end line 7"),
        (lambda rows: rows[:-1], "no end line"),
        (lambda rows: [*rows[:-1], rows[-1][:20]], "last line is cut short"),
    ],
)
def test_kinds_of_damage_are_told_apart(
    whole: Path, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], said: str
) -> None:
    record = after(whole, tmp_path, change)
    assert len(record.remarks) == 1 and said in record.remarks[0]
    assert record.remarks[0].startswith("rank0.jsonl: ")


def test_what_follows_the_damage_is_not_trusted(whole: Path, tmp_path: Path) -> None:
    record = after(whole, tmp_path, lambda rows: [*rows[:2], *rows[3:]])
    unknown = Unknown("the record is damaged at line 3")
    assert record.fact("run.steps") == unknown  # written before the damage, and again after it
    assert record.fact("precision.ops") == unknown
    assert record.fact("never.written") == unknown  # it may have been on the line that is gone
    assert record.events == ()


def test_what_was_written_before_the_damage_is_kept(whole: Path, tmp_path: Path) -> None:
    record = after(whole, tmp_path, lambda rows: [*rows[:5], rows[5].replace(b"9", b"8"), rows[6]])
    assert record.fact("precision.ops") == Evidence("precision.ops", 7, "ops", "dispatch")
    assert record.fact("run.steps") == Unknown("the record is damaged at line 6")
    assert len(record.events) == 2


def test_a_cut_record_keeps_what_it_has(whole: Path, tmp_path: Path) -> None:
    record = after(whole, tmp_path, lambda rows: rows[:4])
    assert record.fact("run.steps") == Evidence("run.steps", {"count": 3})
    assert record.fact("precision.ops") == Unknown("nothing was recorded about precision.ops")
    assert len(record.events) == 2


def sealed(*rows: str) -> bytes:
    """A file of which every checksum is right."""
    raw, chain = b"", 0
    for number, row in enumerate(rows, 1):
        line, chain = lines.seal(row, number, chain)
        raw += line
    return raw


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "empty"),
        (
            sealed('{"schema":2,"rank":0}'),
            "written by a newer reefwatch (schema 2, this one reads 1)",
        ),
        (b'{"schema":2,"and":"another form"}\n', "written by a newer reefwatch"),
        (sealed('{"schema":"1"}'), "not a record"),
        (sealed('{"schema":true}'), "not a record"),
        (sealed('{"schema":1,"rank":"0"}'), "rank is '0'"),
        (sealed('{"schema":1,"rank":-1}'), "rank is -1"),
        (sealed('{"schema":1,"world":0}'), "world is 0"),
        (sealed('{"a":1}'), "not a record"),
        (sealed("[1]"), "not a record"),
        (b"\x7fELF\x02\x01\x01\x00\n\n", "not a record"),
        (b"step,loss\n1,0.5\n", "not a record"),
        (b"[" * 100_000, "not a record"),
        (sealed('{"schema":1}')[:15], "cut short within its first line"),
        (sealed('{"schema":1}').replace(b"}", b" }"), "the header was changed"),
        (
            b"".join(sealed('{"schema":1}', '{"end":true}').splitlines(True)[1:]),
            "header is missing",
        ),
        (b"a" * (lines.LONGEST + 10), "longer than 16 MiB"),
    ],
)
def test_unreadable_in_one_clear_line(tmp_path: Path, raw: bytes, said: str) -> None:
    path = tmp_path / "rank0.jsonl"
    path.write_bytes(raw)
    with pytest.raises(UnreadableRecord) as caught:
        read(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < len(str(path)) + 100


@pytest.mark.parametrize(
    "row",
    [
        '{"fact":"x"}',
        '{"fact":3,"value":1}',
        '{"fact":"x","unknown":" "}',
        '{"fact":"x","value":1,"grade":"guessed"}',
        '{"event":"x"}',
        '{"event":"x","data":[]}',
        '{"event":"x","data":{},"step":"1"}',
        '{"event":"x","data":{},"id":1}',
        "[]",
        '{"event":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"event":1e' + "9" * 10 + ',"a":' + "9" * 5000 + "}",
    ],
    ids=lambda row: row[:24],
)
def test_a_sound_line_that_says_nothing_known_is_damage(tmp_path: Path, row: str) -> None:
    path = tmp_path / "rank0.jsonl"
    path.write_bytes(sealed('{"schema":1}', row, '{"end":true,"complete":true}'))
    record = read(path)
    assert record.damage == "the record is damaged at line 2"
    assert "line 2 " in record.remarks[0]


def test_a_kind_of_row_that_is_not_known_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rank0.jsonl"
    path.write_bytes(sealed('{"schema":1}', '{"news":1}', '{"end":true,"complete":true}'))
    record = read(path)
    assert record.complete and not record.remarks and not record.facts


def test_a_gigantic_line_later_on_is_damage(whole: Path, tmp_path: Path) -> None:
    record = after(whole, tmp_path, lambda rows: [*rows[:2], b"a" * (lines.LONGEST + 10)])
    assert "line 3 is longer than 16 MiB" in record.remarks[0]


def test_missing_and_other_things(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRecord, match="no such file"):
        read(tmp_path / "rank0.jsonl")
    with pytest.raises(UnreadableRecord, match="a folder"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableRecord, match="not a file"):
        read(tmp_path / "pipe")
    with pytest.raises(UnreadableRecord, match="null"):
        read(tmp_path / "a\0b")


def test_permission_denied(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("reefwatch.store.regular.os.open", refuse)
    with pytest.raises(UnreadableRecord, match="permission denied"):
        read(whole)
