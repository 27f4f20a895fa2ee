"""Timing signatures, with a clock of the test's own: nothing depends on the machine's speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.record import Record
from reefwatch.experiments.precision import signatures
from reefwatch.judge.engine import judge

SPEED = {torch.float32: 4.0, torch.bfloat16: 2.0, torch.float16: 2.0}


class Clock:
    """Says that a call takes as long as the dtype of its result is told to."""

    def __init__(self, speed: dict[Any, float]) -> None:
        self.speed = speed
        self.dtypes: list[Any] = []

    def __call__(self, call: Callable[[], Any], count: int) -> float:
        out = call()
        if isinstance(out, tuple):
            out = next(one for one in out if one is not None)
        self.dtypes.append(out.dtype)
        if out.numel() == 1:  # the empty op
            return 1e-6 * count
        return self.speed[out.dtype] * 1e-3 * count


def told(step: Callable[[], object], speed: dict[Any, float] | None = None, **more: Any) -> Record:
    return signatures.run(step, timer=Clock(speed or SPEED), **more)


def outcome(record: Record) -> Any:
    return next(o for o in judge([record])[0] if o.code == "PREC051")


def test_the_costliest_ops_of_a_step_are_timed_in_three_dtypes():
    conv, line = nn.Conv2d(32, 32, 5), nn.Linear(32, 4)
    x = torch.randn(4, 32, 16, 16)

    def step() -> None:
        line(F.relu(conv(x)).mean((2, 3))).sum().backward()

    record = told(step, top=3)
    rows = [event.data for event in record.events]
    assert len(rows) == 3
    assert rows[0]["op"] in ("aten.convolution.default", "aten.convolution_backward.default")
    assert rows[0]["seconds"] == pytest.approx({"f32": 4e-3, "bf16": 2e-3, "f16": 2e-3})
    assert rows[0]["ratio"] == pytest.approx({"bf16": 2.0, "f16": 2.0})
    assert record.fact("precision.signatures").value == {"timed": 3, "of": 3}
    assert outcome(record).findings == ()


def test_a_low_dtype_slower_than_fp32_is_named_with_its_place():
    a = torch.randn(32, 32)
    record = told(lambda: a @ a, {**SPEED, torch.bfloat16: 9.0})
    (finding,) = outcome(record).findings
    assert finding.message == "aten.mm.default takes 2.25 times as long in bf16 as in f32"
    assert finding.place.file == __file__
    assert "emulated" in finding.why


def test_bf16_far_slower_than_fp16_is_a_missing_kernel():
    a = torch.randn(32, 32)
    record = told(lambda: a @ a, {**SPEED, torch.bfloat16: 3.9, torch.float16: 1.0})
    (finding,) = outcome(record).findings
    assert finding.message == "aten.mm.default takes 3.90 times as long in bf16 as in f16"
    assert "no kernel of that kind" in finding.why


def test_one_as_short_as_a_launch_tells_nothing():
    a = torch.randn(8, 8)
    fast = {torch.float32: 1e-3, torch.bfloat16: 9e-3, torch.float16: 9e-3}
    record = told(lambda: a @ a, fast)
    assert record.events[0].data["small"] is True
    assert outcome(record).findings == ()


def test_the_dtype_of_the_step_is_the_one_that_is_changed():
    x = torch.randn(4, 8, 8, 8, dtype=torch.bfloat16)
    norm = nn.BatchNorm2d(8)  # fp32 statistics beside bf16 operands

    record = told(lambda: norm(x), top=4)
    row = next(e.data for e in record.events if "batch_norm" in e.data["op"])
    assert row["dtype"] == "bf16"
    assert set(row["seconds"]) | set(row["errors"]) == {"f32", "bf16", "f16"}


def test_ops_that_write_draw_or_index_are_not_run_again():
    x, index = torch.randn(64, 64), torch.tensor([1, 2])

    def step() -> None:
        F.dropout(x, 0.5)
        x.clone().add_(1)
        x[index]
        torch.randn(4)

    names = {event.data["op"] for event in told(step).events}
    assert not any(
        word in name for name in names for word in ("rand", "bernoulli", "add_", "index")
    )


def test_nothing_to_time_is_unknown():
    assert isinstance(told(lambda: None).fact("precision.signatures"), Unknown)


def test_the_random_state_stays_and_the_time_allowed_is_kept():
    a = torch.randn(16, 16)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    record = told(lambda: (a @ a) + (a @ a.t()), seconds=-1.0)
    assert torch.equal(before, torch.get_rng_state())
    fact = record.fact("precision.signatures")
    assert isinstance(fact, Evidence)
    assert fact.value["timed"] == 0
    assert fact.value["of"] > 0


def test_the_real_clock_gives_times_above_nothing():
    a = torch.randn(16, 16)
    record = signatures.run(lambda: a @ a, rounds=3)
    assert all(seconds > 0 for seconds in record.events[0].data["seconds"].values())


@pytest.mark.parametrize(("samples", "expected"), [([1.0] * 9, 0.0), ([1, 2, 3, 4, 5], 0.5)])
def test_the_spread(samples, expected):
    assert signatures.spread(samples) == pytest.approx(expected)
