"""From step boundaries to facts, and from facts to verdicts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from perf_stage import (
    SYSFS,
    Clock,
    NVMLError,
    PretendNvml,
    Sink,
    pretend_torch,
    strix,
    tools,
)

from reefwatch.core.fact import Unknown
from reefwatch.core.finding import Verdict
from reefwatch.core.record import Record
from reefwatch.gather.host import ReplayedHost
from reefwatch.gather.perf.telemetry import INTERVAL, Telemetry
from reefwatch.judge import engine


def watch(telemetry: Telemetry, torch: Any, seconds: int = 20, sink: Sink | None = None) -> Sink:
    """A run of ten steps a second."""
    sink, clock = sink or Sink(), Clock()
    telemetry.arm(tools(torch, sink, clock))
    for step in range(seconds * 10):
        clock.now += 0.1
        telemetry.on_step(step, 0.1, False)
    telemetry.disarm()
    return sink


def verdict(record: Record, code: str) -> Any:
    check = next(check for check in engine.load() if check.code == code)
    return engine.judge_rank(check, record)


def test_one_sample_a_second() -> None:
    host = ReplayedHost(SYSFS / "rx6900xt")
    sink = watch(Telemetry(host), pretend_torch("RX 6900 XT", slot=(0, 0x0C, 0)))
    rows = sink.rows("perf.sample")
    times = [row["t"] for row in rows]
    assert 18 <= len(rows) <= 20
    assert all(later - earlier >= INTERVAL - 1e-6 for earlier, later in pairwise(times))
    assert rows[0]["power"] == 36.0 and rows[0]["throttle"] is None
    device = sink.value("perf.device")
    assert (device["kind"], device["name"], device["samples"]) == ("amd", "RX 6900 XT", len(rows))
    assert device["source"] == "sysfs /sys/class/drm/card0/device"


def test_a_lowered_power_limit_is_found_on_the_captured_9070_xt() -> None:
    host = ReplayedHost(SYSFS / "rx9070xt")
    sink = watch(Telemetry(host), pretend_torch("RX 9070 XT", slot=(0, 0x0F, 0)))
    outcome = verdict(sink.record(), "PERF002")
    assert outcome.verdict is Verdict.BROKEN
    (finding,) = outcome.findings
    assert finding.message == "the power limit is 120 W"
    assert finding.claimed == "304 W, the card's own limit"


def test_an_idle_card_proves_nothing_about_a_busy_one() -> None:
    host = ReplayedHost(SYSFS / "rx6900xt")
    sink = watch(Telemetry(host), pretend_torch("RX 6900 XT", slot=(0, 0x0C, 0)))
    record = sink.record()
    for code in ("PERF001", "PERF003"):
        outcome = verdict(record, code)
        assert outcome.verdict is Verdict.UNPROVEN
        assert "busy in 0 of" in outcome.reason
    assert "an idle link runs slow" in verdict(record, "PERF004").reason
    assert verdict(record, "PERF002").verdict is Verdict.HELD
    assert verdict(record, "PERF006").verdict is Verdict.HELD
    assert verdict(record, "PERF008").verdict is Verdict.HELD


def test_without_a_gpu_nothing_is_claimed_of_one() -> None:
    sink = watch(Telemetry(), pretend_torch(initialized=False), seconds=3)
    for code in (f"PERF00{n}" for n in range(1, 9)):
        told = verdict(sink.record(), code)
        assert told == "torch did not begin to use a GPU", code
    assert sink.value("perf.device")["kind"] == "cpu"
    assert sink.rows("perf.sample")[-1]["memory_used"] > 0


def test_a_torch_that_cannot_be_asked_leaves_all_unproven() -> None:
    torch = pretend_torch()
    torch.cuda.is_initialized = lambda: 1 / 0
    record = watch(Telemetry(), torch, seconds=3).record()
    for name in ("perf.gpu", "perf.cards"):
        fact = record.fact(name)
        assert isinstance(fact, Unknown) and "ZeroDivisionError" in fact.reason, name


def test_a_run_that_moves_to_the_gpu_later() -> None:
    sink, clock, torch = Sink(), Clock(), pretend_torch("RX 6900 XT", slot=(0, 0x0C, 0))
    begun = torch.cuda.is_initialized
    torch.cuda.is_initialized = lambda: False
    telemetry = Telemetry(ReplayedHost(SYSFS / "rx6900xt"))
    telemetry.arm(tools(torch, sink, clock))
    telemetry.on_step(0, 0.1, True)
    assert sink.value("perf.gpu") is False
    torch.cuda.is_initialized = begun
    clock.now += 5
    telemetry.on_step(1, 5.0, False)
    telemetry.disarm()
    assert sink.value("perf.gpu") is True
    assert sink.rows("perf.sample")[-1]["power"] == 36.0


def test_a_container_without_sysfs_is_unproven_with_a_reason(tmp_path: Path) -> None:
    sink = watch(Telemetry(ReplayedHost(tmp_path)), pretend_torch(), seconds=3)
    assert sink.value("perf.gpu") is True
    assert sink.rows("perf.sample") == []
    for code in ("PERF001", "PERF002", "PERF003", "PERF004", "PERF006", "PERF008"):
        outcome = verdict(sink.record(), code)
        assert outcome.verdict is Verdict.UNPROVEN
        assert outcome.reason == "no AMD card is to be seen in /sys/class/drm"


def test_the_integrated_gpu_beside_a_discrete_one(tmp_path: Path) -> None:
    host = strix(tmp_path)
    torch = pretend_torch("AMD Radeon 890M", slot=(0, 0xC1, 0), integrated=None)
    outcome = verdict(watch(Telemetry(host), torch).record(), "PERF006")
    assert outcome.verdict is Verdict.BROKEN
    assert "AMD Radeon 890M, which is part of the processor" in outcome.findings[0].message
    assert outcome.findings[0].why == "1002:7550 at 0000:03:00.0 is there and was not used"
    other = pretend_torch("RX 9070 XT", slot=(0, 3, 0), integrated=None)
    assert verdict(watch(Telemetry(host), other).record(), "PERF006").verdict is Verdict.HELD


def test_nvidia_from_nvml_to_verdicts() -> None:
    nvml = PretendNvml()
    torch = pretend_torch("NVIDIA H200", slot=(0, 0x19, 0), hip=False)
    record = watch(Telemetry(nvml=nvml), torch).record()
    for code in ("PERF001", "PERF002", "PERF003", "PERF004", "PERF006", "PERF008"):
        assert verdict(record, code).verdict is Verdict.HELD, code
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("answers", "code", "message"),
    [
        (
            {"nvmlDeviceGetCurrentClocksEventReasons": 0x40, "nvmlDeviceGetClockInfo": 1200},
            "PERF001",
            "slowed down by heat in 100% of 19 busy samples, at 61% of its clock "
            "(temperature: hardware)",
        ),
        (
            {"nvmlDeviceGetTemperature": 90},
            "PERF001",
            "temperature reached 90 C, its limit is 89 C",
        ),
        (
            {"nvmlDeviceGetEnforcedPowerLimit": 350_000},
            "PERF002",
            "the power limit is 350 W",
        ),
        (
            {"nvmlDeviceGetClockInfo": 345},
            "PERF003",
            "the clock was 345 MHz at the median of 19 busy samples",
        ),
        (
            {"nvmlDeviceGetCurrPcieLinkWidth": 4},
            "PERF004",
            "the PCIe link runs at x4, 32 GT/s",
        ),
    ],
)
def test_faults_of_an_nvidia_card(answers: dict[str, Any], code: str, message: str) -> None:
    torch = pretend_torch("NVIDIA H200", slot=(0, 0x19, 0), hip=False)
    sink = watch(Telemetry(nvml=PretendNvml(**answers)), torch)
    assert len(sink.rows("perf.sample")) == 19
    outcome = verdict(sink.record(), code)
    assert outcome.verdict is Verdict.BROKEN
    assert [finding.message for finding in outcome.findings] == [message]


def test_a_temperature_bit_at_full_clock_is_no_slowdown() -> None:
    answers = {"nvmlDeviceGetCurrentClocksEventReasons": 0x20, "nvmlDeviceGetClockInfo": 1980}
    torch = pretend_torch("NVIDIA H200", slot=(0, 0x19, 0), hip=False)
    record = watch(Telemetry(nvml=PretendNvml(**answers)), torch).record()
    assert verdict(record, "PERF001").verdict is Verdict.HELD


def test_no_nvml_is_unproven() -> None:
    nvml = PretendNvml(nvmlDeviceGetHandleByPciBusId=NVMLError("Not Found"))
    nvml.answers["nvmlDeviceGetCount"] = NVMLError("Uninitialized")
    torch = pretend_torch("NVIDIA H200", slot=(0, 0x19, 0), hip=False)
    sink = watch(Telemetry(nvml=nvml), torch, seconds=3)
    assert sink.reason("perf.clock") == (
        "torch's device was not found through NVML: nvmlDeviceGetCount: Uninitialized"
    )


def test_a_slow_reader_is_asked_more_seldom() -> None:
    sink, clock = Sink(), Clock()
    nvml = PretendNvml()
    answer = nvml.nvmlDeviceGetTemperature

    def slow(*args: Any) -> Any:
        clock.now += 0.02
        return answer(*args)

    nvml.nvmlDeviceGetTemperature = slow  # type: ignore[method-assign]
    telemetry = Telemetry(nvml=nvml)
    telemetry.arm(tools(pretend_torch(slot=(0, 1, 0), hip=False), sink, clock))
    for step in range(1000):
        clock.now += 0.1
        telemetry.on_step(step, 0.1, False)
    telemetry.disarm()
    times = [row["t"] for row in sink.rows("perf.sample")]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps and min(gaps) >= 10.0
    assert sink.value("perf.device")["interval"] == pytest.approx(10.0, rel=0.02)


def test_a_run_that_is_killed_leaves_facts() -> None:
    sink, clock = Sink(), Clock()
    telemetry = Telemetry(ReplayedHost(SYSFS / "rx9070xt"))
    telemetry.arm(tools(pretend_torch(slot=(0, 0x0F, 0)), sink, clock))
    telemetry.on_step(0, 0.1, True)
    assert sink.value("perf.cap") == {"cap": 120.0, "default": 304.0}


def test_spilling_to_system_memory_grows() -> None:
    from reefwatch.gather.perf.reader import Reader, Sample
    from reefwatch.gather.perf.tally import Tally

    tally = Tally(Reader({}, "absent"))
    for used, spilled in ((10, 5), (95, 5), (96, 45), (90, 20)):
        sample = Sample()
        sample.values = {"memory_used": used, "memory_total": 100, "spilled": spilled}
        tally.add(sample)
    room = tally.facts()["perf.room"]
    assert room.value == {"used": 96, "total": 100, "spilled": 40}  # type: ignore[union-attr]
