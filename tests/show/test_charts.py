"""Charts: what is drawn is what was recorded."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefwatch.core.fact import Evidence
from reefwatch.core.record import Event, Record
from reefwatch.show import charts
from tests.show import reports

FINITE = st.floats(-1e9, 1e9)


@given(st.lists(st.none() | FINITE, max_size=300), st.integers(1, 50))
def test_thinning_keeps_extremes_and_order(values: list[float | None], most: int) -> None:
    points = charts.thin(values, list(range(len(values))), most)
    known = [value for value in values if value is not None]
    assert len(points) <= most
    assert [point.x for point in points] == sorted(point.x for point in points)
    if known:
        assert min(point.low for point in points) == min(known)
        assert max(point.high for point in points) == max(known)
    else:
        assert not points
    slack = 1e-6
    assert all(p.low - slack <= p.mid <= p.high + slack for p in points)


@given(FINITE, FINITE)
def test_ticks_are_inside_and_few(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    found = charts.ticks(low, high)
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert len(found) <= 12
    assert all(low - slack <= tick <= high + slack for tick in found)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 5, 10]), (0, 0.2, [0, 0.05, 0.1, 0.15, 0.2]), (3, 3, [3]), (44, 93, [60, 80])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert charts.ticks(low, high) == pytest.approx(expected)


def chart(record: Record, title: str) -> charts.Chart:
    return next(chart for chart in charts.charts(record) if chart.title == title)


def test_every_chart_is_there_for_a_full_record() -> None:
    titles = [chart.title for chart in charts.charts(reports.cnn_record())]
    assert titles == [
        "Step time", "Loss", "Memory", "Temperature", "Power", "Clock", "Utilisation",
    ]  # fmt: skip


def test_no_values_no_chart() -> None:
    assert charts.charts(Record()) == []
    rows = (Event("perf.sample", {"t": 1.0}), Event("perf.sample", {"t": "x", "power": 3}))
    assert charts.charts(Record(events=rows)) == []


def test_examined_steps_are_marked_where_they_were() -> None:
    times = chart(reports.cnn_record(), "Step time")
    marks = re.findall(r'class="examined" x="([\d.]+)" width="([\d.]+)"', times.svg)
    # 0..19, 50, 150 and 250 of 0..299, two steps to a piece, on an axis of 1000
    begins = [float(x) for x, _ in marks]
    assert begins == pytest.approx([n / 0.299 for n in (0, 49.5, 149.5, 249.5)], abs=0.1)
    assert float(marks[0][1]) == pytest.approx(19.5 / 0.299, abs=0.1)
    assert times.legend == (("examined", "examined: 7.7 % of the steps"),)


STEPS = st.integers(1, 3000)


@given(STEPS, st.data())
def test_no_piece_looks_more_examined_than_it_was(steps: int, data: st.DataObject) -> None:
    examined = sorted(data.draw(st.sets(st.integers(0, steps - 1), max_size=60)))
    found = charts.bands(examined, 0, steps - 1)
    thousandths = max(1, steps - 1) / charts.WIDTH
    told = sum((band.end - band.begin) * thousandths * band.share for band in found)
    # half a step at either end of the axis, and two decimals of a share
    assert abs(told - len(examined)) <= 1 + 0.01 * steps
    for step in examined:
        x = charts.WIDTH * step / max(1, steps - 1)
        assert any(band.begin - 1e-6 <= x <= band.end + 1e-6 for band in found)


def test_sparse_examination_of_a_long_run_is_pale() -> None:
    found = charts.bands(range(0, 100_000, 50), 0, 99_999)
    assert {band.share for band in found} == {0.02}


def test_points_lie_where_the_values_are() -> None:
    event = Event("loop.loss", {"first": 4, "values": [1.0, 3.0, float("nan"), 2.0]})
    loss = chart(Record(events=(event,)), "Loss")
    points = json.loads(loss.data)
    assert [text for _, _, text in points] == ["backward 4: 1", "backward 5: 3", "backward 7: 2"]
    assert [x for x, _, _ in points] == pytest.approx([0, 33.33, 100])
    ys = [y for _, y, _ in points]
    assert ys[1] < ys[2] < ys[0]
    assert loss.remark == "1 value not finite, not drawn"


def test_one_slow_step_is_cut_and_told() -> None:
    seconds = [9.0] + [0.1] * 99
    event = Event("perf.steps", {"first": 0, "seconds": seconds, "examined": [1] + [0] * 99})
    times = chart(Record(events=(event,)), "Step time")
    assert times.remark == "1 step above the axis, the longest 9 s"
    assert times.summary == "median 100 ms, p95 100 ms"


def test_throttling_is_told() -> None:
    rows = [
        Event("perf.sample", {"t": float(n), "clock": 2000, "throttle": ["power"] if n else []})
        for n in range(4)
    ]
    assert (
        chart(Record(events=tuple(rows)), "Clock").remark
        == "throttle status in 3 of 4 samples: power"
    )


def test_a_late_entry_stands_for_several_steps() -> None:
    rows = (
        Event("perf.steps", {"first": 0, "seconds": [0.1] * 4, "examined": [1, 0, 0, 0]}),
        Event("perf.steps", {"first": 4, "seconds": [0.1] * 3, "examined": [0, 1, 0], "every": 8}),
    )
    times = chart(Record(events=rows), "Step time")
    assert [text.split(":")[0] for _, _, text in json.loads(times.data)] == [
        f"step {n}" for n in (0, 1, 2, 3, 4, 12, 20)
    ]
    assert times.legend == (("examined", "examined: at least 9.5 % of the steps"),)


def test_the_step_time_is_that_of_unexamined_steps() -> None:
    event = Event("perf.steps", {"first": 0, "seconds": [0.2, 0.1, 0.1], "examined": [1, 0, 0]})
    assert chart(Record(events=(event,)), "Step time").summary == "median 100 ms, p95 100 ms"
    told = {"perf.steps": Evidence("perf.steps", {"median": 0.3, "p95": 0.4})}
    assert chart(Record({}, told, (event,)), "Step time").summary == "median 300 ms, p95 400 ms"


def test_two_losses_are_two_lines_and_a_stride_counts():
    rows = [
        Event("loop.loss", {"series": 0, "first": 0, "stride": 2, "values": [4.0, 3.0, 2.0]}),
        Event("loop.loss", {"series": 1, "first": 0, "stride": 1, "values": [9.0, 8.0]}),
    ]
    (chart,) = charts.charts(Record(events=tuple(rows)))
    assert chart.summary == "first 4, last 2"
    assert [kind for kind, _ in chart.legend] == ["a", "b"]
    assert '"backward 4: 2"' in chart.data
