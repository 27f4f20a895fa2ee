"""The module tree and the words for numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefwatch.core.record import Event
from reefwatch.show import tree, view, words
from tests.show import reports


def row(module: str, dtype: str = "f32", flops: float = 1, size: float = 1) -> Event:
    data = {"module": module, "in": [dtype], "out": [dtype], "flops": flops, "bytes": size}
    return Event("precision.op", data)


def test_shares_add_up_from_leaf_to_root() -> None:
    root = tree.build(
        [row("a.b", "bf16", 6), row("a.c", "f32", 2), row("d", "bf16", 2), row("", "f32", 5)], 100
    )
    assert root.flops == {"bf16": 8, "f32": 7}
    assert root.children["a"].flops == {"bf16": 6, "f32": 2}
    assert root.children[tree.NO_MODULE].flops == {"f32": 5}
    parts = tree.parts(root.children["a"].flops, 15, words.flops)
    assert [(part.dtype, part.percent) for part in parts] == [("f32", "13.33"), ("bf16", "40.00")]


def test_a_chain_of_only_children_is_one_row() -> None:
    root = tree.build([row("model.model.layers.0"), row("model.model.layers.1")], 100)
    (only,) = root.children.values()
    assert only.name == "model.model.layers"
    assert [child.name for child in only.children.values()] == ["0", "1"]


def test_small_modules_are_counted_when_there_are_too_many() -> None:
    rows = [row(f"m{n}", flops=n, size=n) for n in range(100)]
    root = tree.build(rows, 11)
    assert len(root.children) == 10
    assert root.left_out == 90
    assert set(root.children) == {f"m{n}" for n in range(90, 100)}
    assert root.flops["f32"] == sum(range(100))


MODULES = st.lists(st.sampled_from(["a", "b", "", "0"]), max_size=6).map(".".join)


@given(st.lists(st.tuples(MODULES, st.integers(0, 9)), max_size=40), st.integers(1, 12))
def test_nothing_is_lost_or_shown_twice(rows: list[tuple[str, int]], most: int) -> None:
    events = [row(module, flops=flops, size=flops) for module, flops in rows]
    whole = tree.build(events, 10_000)
    assert whole.flops.total() == sum(flops for _, flops in rows)
    pruned = tree.build(events, most)
    assert pruned.size() <= most

    def check(node: tree.Node) -> None:
        inside = sum(child.flops.total() for child in node.children.values())
        assert inside <= node.flops.total()
        for child in node.children.values():
            check(child)

    check(whole)


@given(st.dictionaries(st.text(max_size=6), st.none() | st.floats() | st.text(max_size=3)))
def test_by_dtype_takes_any_mapping(value: dict[str, object]) -> None:
    counts = tree.by_dtype(value)
    assert all(math.isfinite(part) and part >= 0 for part in counts.values())


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.size(0), "0 B"),
        (words.size(1536), "1.50 KiB"),
        (words.size(8.5 * 2**30), "8.50 GiB"),
        (words.seconds(0.01234), "12.3 ms"),
        (words.seconds(0), "0 ms"),
        (words.seconds(3e-6), "3 µs"),
        (words.seconds(200), "3 min 20 s"),
        (words.seconds(7505), "2 h 05 min"),
        (words.share(1), "100 %"),
        (words.share(0.99999), "> 99.9 %"),
        (words.share(0.00001), "< 0.1 %"),
        (words.share(0.131), "13 %"),
        (words.amount(1234), "1,234"),
        (words.amount(0.0123), "0.0123"),
        (words.amount(12.34), "12.3"),
        (words.flops(3.1e12), "3.10 TFLOP"),
        (words.quantity([1, 2], "bytes"), "1 B, 2 B"),
        (words.quantity({"f32": 3}, ""), "f32 3"),
        (words.quantity(True), "yes"),
        (words.quantity(float("nan"), "s"), "nan s"),
        (words.quantity(3, "°C"), "3 °C"),
        (words.short_path("/a/b/c.py", "/a"), "b/c.py"),
        (words.short_path("/ab/c.py", "/a"), "/ab/c.py"),
        (words.short_path("/v/site-packages/torch/x.py", "/a"), "torch/x.py"),
        (view.ranks((3, 1, 2, 7)), "ranks 1-3, 7"),
        (view.ranks((4,)), "rank 4"),
        (view.codes(["LOOP003", "LOOP001", "LOOP002"]), "LOOP001-003"),
        (view.codes(["LOOP001", "LOOP002"]), "LOOP001 LOOP002"),
        (view.codes(["LOOP008", "PERF009", "LOOP010", "LOOP009"]), "LOOP008-010 PERF009"),
        (
            view.codes(["WATCH", "x", "\u0663\u0663\u0663", "PREC001"]),
            "PREC001 WATCH x \u0663\u0663\u0663",
        ),
    ],
)
def test_words(said: str, expected: str) -> None:
    assert said == expected


@given(st.floats(-1e300, 1e300))
def test_an_amount_keeps_three_digits(value: float) -> None:
    read = float(words.amount(value).replace(",", ""))
    assert read == pytest.approx(value, rel=6e-3)


@given(st.text(), st.integers(1, 40))
def test_a_line_is_one_short_visible_line(text: str, limit: int) -> None:
    said = words.line(text, limit)
    assert len(said) <= limit
    assert said.splitlines() in ([said], [])
    said.encode("utf-8")


@pytest.mark.parametrize("middle", ["x" * 5000, " " * 5000, "x" * 60])
def test_a_cut_is_seen_and_keeps_both_ends(middle: str) -> None:
    said = words.line(f"/begin/{middle}/train.py:41", 40)
    assert said.startswith("/begin/")
    assert said.endswith("/train.py:41")
    assert "…" in said


def test_the_realistic_record_is_what_it_says() -> None:
    rows = tree.ops(reports.cnn_record())
    root = tree.build(rows, 500)
    assert 0.08 < root.flops["f32"] / root.flops.total() < 0.2
    assert tree.build(reports.op_events(upcast=False), 500).flops["f32"] == 0
