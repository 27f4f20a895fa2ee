"""The processor's values against psutil's, and that psutil's own state is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import LiveHost, ReplayedHost
from reefwatch.gather.perf.cpu import CpuReader, resident, total_memory


def test_memory_as_psutil_sees_it() -> None:
    host = LiveHost()
    assert total_memory(host) == psutil.virtual_memory().total
    seen = resident(host)
    assert not isinstance(seen, Unknown)
    true = psutil.Process(os.getpid()).memory_info().rss
    assert abs(seen - true) < 16 << 20  # both move while the test runs


def stat(root: Path, *ticks: int) -> None:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_text(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 1 1 1\n")


def test_utilisation_between_two_looks(tmp_path: Path) -> None:
    stat(tmp_path, 100, 0, 50, 800, 50, 0, 0, 0, 90, 0)
    reader = CpuReader(ReplayedHost(tmp_path))
    assert reader.sample().missing["utilisation"] == "no time has passed since the last look"
    stat(tmp_path, 175, 0, 50, 825, 50, 0, 0, 0, 160, 0)
    assert reader.sample().get("utilisation") == 75.0


def test_the_package_temperature_by_its_label(tmp_path: Path) -> None:
    files = {
        "hwmon0/name": "nvme",
        "hwmon0/temp1_label": "Tctl",
        "hwmon0/temp1_input": "99000",
        "hwmon1/name": "k10temp",
        "hwmon1/temp1_label": "Tccd1",
        "hwmon1/temp3_label": "Tctl",
        "hwmon1/temp3_input": "61250",
    }
    for name, text in files.items():
        path = tmp_path / "sys/class/hwmon" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert CpuReader(ReplayedHost(tmp_path)).sample().get("temperature") == 61.25


def test_psutils_own_differences_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("cpu_percent", "cpu_times", "cpu_freq", "virtual_memory"):
        monkeypatch.setattr(psutil, name, lambda *a, name=name, **k: asked.append(name))
    CpuReader(LiveHost()).sample()
    assert asked == []


@given(st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes(tmp_path_factory, one: bytes, two: bytes, three: bytes) -> None:  # type: ignore[no-untyped-def]
    root = tmp_path_factory.getbasetemp() / "cpu"
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/stat").write_bytes(b"cpu " + one)
    (root / "proc/meminfo").write_bytes(b"MemTotal: " + two)
    (root / "proc/self/statm").write_bytes(three)
    (root / "proc/cpuinfo").write_bytes(one + two)
    reader = CpuReader(ReplayedHost(root))
    reader.sample()
    assert all(isinstance(value, float) for value in reader.sample().values.values())
