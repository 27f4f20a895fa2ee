"""Step times: what is counted, what is left out, and how much is kept."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perf_stage import Clock, Sink, tools

from reefwatch.gather.patches import Patches
from reefwatch.gather.perf.quantiles import RELATIVE_ERROR, Sketch, median
from reefwatch.gather.perf.timing import HEAD, Rows, Timing

torch = pytest.importorskip("torch")


def run(times: list[float], examined: int = 0, sink: Sink | None = None) -> Sink:
    sink, clock, timing = sink or Sink(), Clock(), Timing()
    timing.arm(tools(torch, sink, clock))
    for step, seconds in enumerate(times):
        clock.now += seconds
        timing.on_step(step, seconds, step < examined)
    timing.disarm()
    return sink


def test_warm_up_and_examined_steps_are_left_out() -> None:
    times = [3.0, 0.9, 0.4, 0.35] + [0.1, 0.12] * 60
    sink = run(times, examined=3)
    steps = sink.value("perf.steps")
    assert (steps["count"], steps["warmup"], steps["steps"]) == (124, 4, 120)
    assert steps["median"] == pytest.approx(0.11)
    assert steps["p95"] == 0.12
    assert steps["samples_per_second"] is None
    assert sink.value("perf.spread")["ratio"] == pytest.approx(0.12 / 0.11)


def test_a_run_that_is_all_exam_says_so() -> None:
    sink = run([0.5, 0.2, 0.2, 0.2], examined=4)
    assert sink.value("perf.steps")["median"] == 0.2
    assert "examined steps, which are longer" in sink.facts["perf.steps"].source  # type: ignore[union-attr]
    assert sink.reason("perf.spread").startswith("0 steps ran unexamined")


def test_few_steps_prove_no_spread() -> None:
    assert run([0.1] * 100).reason("perf.spread") == (
        "99 steps ran unexamined after the warm-up; 100 are needed"
    )
    assert run([0.1] * 101).value("perf.spread")["ratio"] == pytest.approx(1.0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_run_of_few_steps(count: int) -> None:
    steps = run([0.5] * count).value("perf.steps")
    assert steps["count"] == count and steps["warmup"] < count and steps["median"] == 0.5


def test_no_step() -> None:
    assert run([]).reason("perf.steps") == "no step was seen"


def test_a_run_that_never_settles_loses_no_more_than_half() -> None:
    steps = run([1.0 / (n + 1) for n in range(40)]).value("perf.steps")
    assert 1 <= steps["warmup"] <= 20


def test_quantiles_of_a_long_run_keep_to_the_stated_error() -> None:
    rng = random.Random(7)
    times = [rng.lognormvariate(-3, 0.5) for _ in range(30_000)]
    sink = run(times)
    steps = sink.value("perf.steps")
    true = sorted(times[steps["warmup"] :])
    p95 = true[math.ceil(0.95 * len(true)) - 1]
    assert steps["median"] == pytest.approx(statistics.median(true), rel=RELATIVE_ERROR * 1.01)
    assert steps["p95"] == pytest.approx(p95, rel=RELATIVE_ERROR * 1.01)
    assert "quantiles to 0.5%" in sink.facts["perf.steps"].source  # type: ignore[union-attr]


def test_every_step_reaches_the_record_and_the_batches_are_few() -> None:
    times = [0.004] * 5000
    rows = run(times).rows("perf.steps")
    assert sum(len(row["seconds"]) for row in rows) == 5000
    assert [row["first"] for row in rows] == list(range(0, 5000, 200))
    assert {row["every"] for row in rows} == {1}
    slow = run([0.7] * 20).rows("perf.steps")
    assert all(len(row["seconds"]) <= 2 for row in slow) and len(slow) <= 11


def test_a_million_steps_stay_small() -> None:
    rows, sent = Rows(), []
    for step in range(1_000_000):
        rows.add(step, 0.001, False)
        if len(rows) >= 200:
            sent.append(rows.take())
    entries = sum(len(row["seconds"]) for row in sent if row)
    assert entries < 130_000
    assert (
        [r["first"] + len(r["seconds"]) * r["every"] for r in sent[:-1]]
        == [  # type: ignore[index]
            r["first"]  # type: ignore[index]
            for r in sent[1:]
        ]
    )
    assert {value for row in sent if row for value in row["seconds"]} == {0.001}


def test_what_is_kept_is_bounded() -> None:
    timing = Timing()
    timing.arm(tools(torch, Sink(), Clock()))
    for step in range(20_000):
        timing.on_step(step, random.Random(step).uniform(1e-4, 10), step % 50 == 0)
    assert len(timing._head) == HEAD
    assert len(timing._plain._buckets) + len(timing._examined._buckets) < 2400


@given(st.lists(st.floats(1e-8, 1e8), min_size=1, max_size=300), st.floats(0.01, 1.0))
def test_the_sketch_keeps_its_error(values: list[float], share: float) -> None:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    true = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    assert sketch.quantile(share) == pytest.approx(true, rel=RELATIVE_ERROR * (1 + 1e-9))


@given(st.lists(st.integers(0, 50), min_size=1))
def test_the_counted_median(values: list[int]) -> None:
    assert median(Counter(values)) == statistics.median_low(values)


def test_nothing_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="of nothing"):
        Sketch().quantile(0.5)
    with pytest.raises(ValueError, match="of nothing"):
        median(Counter())


def loop(batches: Any, timing: Timing, clock: Clock) -> None:
    for step, _ in enumerate(batches):
        clock.now += 0.1
        timing.on_step(step, 0.1, False)


@pytest.mark.parametrize(("accumulate", "size"), [(1, 8), (2, 16)])
def test_samples_a_second_from_the_data_loader(accumulate: int, size: int) -> None:
    data = torch.utils.data.TensorDataset(torch.zeros(84, 3))
    sink, clock, timing, patches = Sink(), Clock(), Timing(), Patches()
    timing.arm(tools(torch, sink, clock, patches=patches))
    for n, _ in enumerate(torch.utils.data.DataLoader(data, batch_size=8)):
        if n % accumulate == accumulate - 1:
            clock.now += 0.1
            timing.on_step(n, 0.1, False)
    timing.disarm()
    patches.restore()
    steps = sink.value("perf.steps")
    assert steps["samples_per_step"] == size
    assert steps["samples_per_second"] == pytest.approx(size / 0.1)


def test_samples_a_second_from_the_first_input_of_the_root_module() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    timing, sink, clock = Timing(), Sink(), Clock()
    timing.arm(tools(torch, sink, clock))

    class Call:
        phase = "forward"

    class Layer(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            timing.on_op(Call)
            return func(*args, **(kwargs or {}))

    class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 2)

        def forward(self, scale: float, x: Any) -> Any:
            return self.inner(x.reshape(-1, 3) * scale)

    net = Net()
    timing.open(0)
    with Layer():
        net(2.0, torch.zeros(6, 5, 3))
    clock.now += 0.5
    timing.on_step(0, 0.5, True)
    timing.disarm()
    assert sink.value("perf.steps")["samples_per_step"] == 6
    assert "first tensor given to Net" in sink.facts["perf.steps"].source  # type: ignore[union-attr]
