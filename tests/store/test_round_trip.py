"""What is written is what is read, in the file and in memory."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reefwatch.core.fact import Evidence, Grade, Unknown
from reefwatch.store import lines
from reefwatch.store.reader import read
from reefwatch.store.writer import Writer

HEADER = {"reefwatch": "0.1.0", "run_id": "r", "rank": 0, "world": 1}

text = st.text(st.characters(), max_size=12)  # lone surrogates too
keys = text | st.just("$float")
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
)
facts = st.builds(Unknown, text.filter(str.strip)) | st.builds(
    Evidence, text, values, text, text, st.sampled_from(Grade)
)
rows = st.lists(
    st.tuples(st.just("fact"), text, facts)
    | st.tuples(
        st.just("event"),
        text,
        st.dictionaries(keys, values, max_size=4),
        st.none() | st.integers(0, 2**40),
        st.none() | text,
    ),
    max_size=12,
)


def same(one: object, other: object) -> bool:
    """Equal, with NaN equal to NaN, -0.0 not to 0.0, and 1 not to True."""
    return repr(one) == repr(other)


def write(folder: Path, said: list[tuple[object, ...]]) -> Writer:
    writer = Writer(folder, HEADER, scrub=False)
    for kind, *rest in said:
        if kind == "fact":
            writer.fact(*rest)  # type: ignore[arg-type]
        else:
            name, data, step, id_ = rest
            writer.event(name, data, step=step, id=id_)  # type: ignore[arg-type]
    return writer


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows)
def test_file_and_memory_tell_the_same(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[object, ...]]
) -> None:
    writer = write(tmp_path_factory.mktemp("run"), said)
    writer.close()
    assert writer.path is not None
    record = read(writer.path)
    assert same(record, writer.record())
    assert record.complete and record.remarks == ()
    told = {name: fact for kind, name, fact, *_ in said if kind == "fact"}
    assert same(dict(record.facts), told)
    unique = [row for row in said if row[0] == "event" and row[4] is None]
    assert [e.kind for e in record.events if e.id is None] == [row[1] for row in unique]


@given(values)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    assert same(lines.decode(lines.encode(value)), value)


def test_every_line_is_json_for_other_tools(tmp_path: Path) -> None:
    writer = write(tmp_path, [("event", "loop.loss", {"values": [math.nan, -math.inf]}, 3, None)])
    writer.close()
    rows = [json.loads(line) for line in (tmp_path / "rank0.jsonl").read_text().splitlines()]
    assert next(iter(rows[0])) == "schema" and rows[0]["schema"] == 1
    assert rows[1]["data"] == {"values": [{"$float": "nan"}, {"$float": "-inf"}]}
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert all(list(row)[-1] == "crc" for row in rows)
    assert rows[-1]["end"] is True


class Color(enum.Enum):
    RED = "red"


class Opaque:
    def __repr__(self) -> str:
        raise AssertionError("a record must not run the user's code")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (np.float32(0.5), 0.5),
        (np.float64("nan"), math.nan),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]),
        (np.array([1.0, np.inf]), [1.0, math.inf]),
        ({np.int64(3): 1}, {"3": 1}),
        ({(1, 2): "x"}, {"[1,2]": "x"}),
        (Color.RED, "red"),
        (Path("/a/b"), "/a/b"),
        ((1, 2), [1, 2]),
        ({3, 1}, [1, 3]),
        (b"a\xff", "a\udcff"),
        pytest.param(2**20000, hex(2**20000), id="huge"),
        (2**200, 2**200),
        (float("inf"), math.inf),
    ],
)
def test_what_json_does_not_know(value: object, kept: object) -> None:
    assert same(lines.decode(lines.encode(value)), kept)


def test_an_unknown_object_is_named_without_running_its_code() -> None:
    assert lines.decode(lines.encode([Opaque()])) == [f"<{__name__}.Opaque>"]


def test_a_cycle_and_a_deep_nest_end() -> None:
    cycle: list[object] = [1]
    cycle += [cycle, cycle]
    assert lines.decode(lines.encode(cycle)) == [1, "<cycle>", "<cycle>"]
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "<too deep>" in lines.encode(deep)


def test_the_caller_may_change_its_values_afterwards(tmp_path: Path) -> None:
    data = {"calls": 1}
    writer = write(tmp_path, [("event", "precision.op", data, None, "0")])
    data["calls"] = 2
    assert writer.record().events[0].data == {"calls": 1}


def test_totals_supersede_and_keep_their_place(tmp_path: Path) -> None:
    said: list[tuple[object, ...]] = [
        ("event", "op", {"calls": 1}, 0, "a"),
        ("event", "op", {"calls": 1}, 0, "b"),
        ("event", "op", {"calls": 5}, 9, "a"),
        ("event", "op", {"calls": 5}, 9, "a"),  # nothing new: no line
    ]
    writer = write(tmp_path, said)
    writer.close()
    events = read(tmp_path / "rank0.jsonl").events
    assert [(event.id, event.data["calls"], event.step) for event in events] == [
        ("a", 5, 9),
        ("b", 1, 0),
    ]
    assert len((tmp_path / "rank0.jsonl").read_bytes().splitlines()) == 5


def test_memory_holds_superseded_totals_once(tmp_path: Path) -> None:
    writer = Writer(None, HEADER)
    for calls in range(2000):
        writer.event("op", {"calls": calls}, id="a")
        writer.fact("steps", Evidence("steps", calls))
    assert len(writer._kept) == 3
    assert writer.record().events[0].data == {"calls": 1999}
    assert writer.path is None


def test_remarks_are_kept(tmp_path: Path) -> None:
    writer = Writer(tmp_path, HEADER)
    writer.remark("the exam was cut short")
    writer.close(complete=False)
    record = read(tmp_path / "rank0.jsonl")
    assert record.remarks == ("the exam was cut short",)
    assert not record.complete
    assert replace(record, complete=True) == replace(writer.record(), complete=True)
