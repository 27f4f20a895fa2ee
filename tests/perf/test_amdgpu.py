"""The sysfs reader on captured cards."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perf_stage import SYSFS, strix

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.host import ReplayedHost
from reefwatch.gather.perf.amdgpu import AmdgpuReader, levels, number
from reefwatch.gather.perf.cards import drm_cards
from reefwatch.gather.perf.throttle import amd_reasons, nvidia_reasons


def reader(tree: str | ReplayedHost) -> AmdgpuReader:
    host = ReplayedHost(SYSFS / tree) if isinstance(tree, str) else tree
    return AmdgpuReader(host, drm_cards(host)[0])


@pytest.mark.parametrize(
    ("tree", "values"),
    [
        (
            "rx7900xtx",
            {
                "temperature": 53.0,
                "hotspot": 61.0,
                "power": 68.0,
                "power_cap": 290.0,
                "clock": 31.0,
                "max_clock": 2735.0,
                "utilisation": 3.0,
            },
        ),
        (
            "rx9070xt",
            {
                "temperature": 42.0,
                "hotspot": 45.0,
                "power": 55.0,
                "power_cap": 120.0,
                "clock": 167.0,
                "max_clock": 1000.0,
                "utilisation": 3.0,
            },
        ),
        (
            "rx6900xt",
            {
                "temperature": 56.0,
                "hotspot": 59.0,
                "power": 36.0,
                "power_cap": 289.0,
                "clock": 500.0,
                "max_clock": 2660.0,
                "utilisation": 3.0,
                "memory_used": 668274688.0,
                "memory_total": 17163091968.0,
                "spilled": 62369792.0,
            },
        ),
    ],
)
def test_samples(tree: str, values: dict[str, float]) -> None:
    sample = reader(tree).sample()
    assert sample.values == values
    assert sample.throttle is None
    missing = {"throttle", "memory_used", "memory_total", "spilled"} - set(values)
    assert set(sample.missing) == missing
    folder = reader(tree).source.removeprefix("sysfs ")
    assert sample.missing["throttle"] == f"there is no {folder}/gpu_metrics"
    assert sample.row()["throttle"] is None and sample.row()["clock"] == values["clock"]


def test_an_apu_computes_in_both_of_its_memories(tmp_path: Path) -> None:
    sample = reader(strix(tmp_path, discrete=False)).sample()
    assert sample.get("memory_total") == 536870912 + 16441004032
    assert sample.get("memory_used") == 514580480 + 3946811392
    assert sample.get("power") == 9.087
    assert "hotspot" in sample.missing


def test_power_limits() -> None:
    cap = reader("rx9070xt").cap()
    assert isinstance(cap, Evidence) and cap.value == {"cap": 120.0, "default": 304.0}
    cap = reader("rx7900xtx").cap()
    assert isinstance(cap, Evidence) and cap.value == {"cap": 290.0, "default": 290.0}


def test_heat_limits() -> None:
    assert reader("rx7900xtx").heat_limits() == {"temperature": 100.0, "hotspot": 110.0}


def test_link() -> None:
    link = reader("rx6900xt").link()
    assert isinstance(link, Evidence)
    assert link.value == {"width": 16.0, "max_width": 16.0, "speed": 16.0, "max_speed": 16.0}
    missing = reader("rx7900xtx").link()
    assert missing == Unknown("there is no /sys/class/drm/card0/device/max_link_width")


def hop(folder: Path, vendor: str, width: int, max_width: int, speed: str = "16.0") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "current_link_width").write_text(f"{width}\n")
    (folder / "max_link_width").write_text(f"{max_width}\n")
    (folder / "current_link_speed").write_text(f"{speed} GT/s PCIe\n")
    (folder / "max_link_speed").write_text("16.0 GT/s PCIe\n")


def test_the_slot_is_the_link_of_the_cards_own_switch(tmp_path: Path) -> None:
    root = "sys/devices/pci0000:00/0000:00:01.1"
    hop(tmp_path / root, "0x1022", 4, 16)
    hop(tmp_path / root / "0000:01:00.0", "0x1002", 4, 16)
    hop(tmp_path / root / "0000:01:00.0/0000:02:00.0", "0x1002", 16, 16)
    gpu = tmp_path / root / "0000:01:00.0/0000:02:00.0/0000:03:00.0"
    hop(gpu, "0x1002", 16, 16)
    (gpu / "uevent").write_text("PCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n")
    card = tmp_path / "sys/class/drm/card0"
    card.mkdir(parents=True)
    (card / "device").symlink_to(gpu)
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    relative = "../../../devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0"
    (bus / "0000:03:00.0").symlink_to(relative)
    link = reader(ReplayedHost(tmp_path)).link()
    assert isinstance(link, Evidence)
    assert link.value == {"width": 4.0, "max_width": 16.0, "speed": 16.0, "max_speed": 16.0}


def test_level_tables() -> None:
    assert levels("0: 500Mhz\n1: 31Mhz *\n2: 2219Mhz\n") == ([500, 31, 2219], 31)
    assert levels("S: 19Mhz *\n0: 615Mhz\n1: 800Mhz\n") == ([19, 615, 800], 19)
    assert levels("nothing") == ([], None)


def test_the_clock_of_kfd_is_the_highest_clock(tmp_path: Path) -> None:
    tree = strix(tmp_path, discrete=False)
    node = tmp_path / "sys/class/kfd/kfd/topology/nodes/1"
    node.mkdir(parents=True)
    text = "simd_count 24\nlocation_id 49408\ndomain 0\nmax_engine_clk_fcompute 2900\n"
    (node / "properties").write_text(text)
    assert reader(tree).sample().get("max_clock") == 2900.0


def test_a_probe_that_keeps_failing_is_not_asked_again(tmp_path: Path) -> None:
    tree = strix(tmp_path, discrete=False)
    sensor = tmp_path / "sys/class/drm/card1/device/hwmon/hwmon3/temp1_input"
    one = reader(tree)
    assert one.sample().get("temperature") == 51.0
    sensor.unlink()
    for _ in range(3):
        assert "there is no" in one.sample().missing["temperature"]
    sensor.write_text("52000\n")
    assert one.sample().get("temperature") is None
    sensor.unlink()
    two = reader(tree)
    two.sample()
    sensor.write_text("52000\n")
    sample = two.sample()
    assert sample.get("temperature") == 52.0 and "temperature" not in sample.missing


def table(form: int, content: int, size: int, offset: int, status: int) -> bytes:
    raw = bytearray(size)
    struct.pack_into("<HBB", raw, 0, size, form, content)
    struct.pack_into("<Q", raw, offset, status)
    return bytes(raw)


@pytest.mark.parametrize(
    ("form", "content", "size", "offset"), [(1, 3, 120, 112), (2, 2, 128, 120), (2, 3, 152, 120)]
)
def test_throttle_status_of_known_tables(form: int, content: int, size: int, offset: int) -> None:
    status = 1 << 0 | 1 << 1 | 1 << 36
    told = amd_reasons(table(form, content, size, offset, status))
    assert told == ("power", "temperature: hotspot")
    assert amd_reasons(table(form, content, size, offset, 0)) == ()
    assert amd_reasons(table(form, content, size, offset, 1 << 60)) == ("other: bit 60",)
    unset = amd_reasons(table(form, content, size, offset, 2**64 - 1))
    assert unset == Unknown("gpu_metrics leaves the throttle status unset")


def test_tables_that_are_not_known_are_not_guessed() -> None:
    later = amd_reasons(table(1, 4, 264, 112, 1 << 36))
    assert later == Unknown("gpu_metrics 1.4 holds no throttle status that is known here")
    cut = amd_reasons(table(1, 3, 120, 112, 1 << 36)[:100])
    assert cut == Unknown("gpu_metrics says 120 bytes and has 100")
    assert amd_reasons(b"") == Unknown("gpu_metrics is empty or too short")


def test_nvidia_reasons() -> None:
    assert nvidia_reasons(0x1) == ()
    assert nvidia_reasons(0x4 | 0x40) == ("power: cap", "temperature: hardware")
    assert nvidia_reasons(0x400) == ("other: bit 10",)


@given(st.binary(max_size=300))
def test_any_bytes_as_a_table(raw: bytes) -> None:
    told = amd_reasons(raw)
    assert isinstance(told, (Unknown, tuple))
    sized = struct.pack("<HBB", len(raw) + 4, 1, 3) + raw
    assert isinstance(amd_reasons(sized), (Unknown, tuple))


FILES = (
    "gpu_busy_percent",
    "pp_dpm_sclk",
    "pp_od_clk_voltage",
    "gpu_metrics",
    "mem_info_vram_used",
    "mem_info_vram_total",
    "mem_info_gtt_used",
    "mem_info_gtt_total",
    "current_link_width",
    "max_link_width",
    "current_link_speed",
    "max_link_speed",
    "hwmon/hwmon1/temp1_label",
    "hwmon/hwmon1/temp1_input",
    "hwmon/hwmon1/temp2_input",
    "hwmon/hwmon1/temp2_crit",
    "hwmon/hwmon1/power1_average",
    "hwmon/hwmon1/power1_cap",
    "hwmon/hwmon1/power1_cap_default",
    "hwmon/hwmon1/freq1_input",
)
NUMBERS = st.integers(-(10**30), 10**30).map(lambda n: str(n).encode())
LEVELS = st.from_regex(rb"(\w+: \d{1,30}Mhz ?\*?\n){1,3}|[\d.]{1,9} GT/s PCIe", fullmatch=True)


@given(st.lists(st.one_of(st.binary(max_size=60), NUMBERS, LEVELS), min_size=20, max_size=20))
def test_any_bytes_in_any_sensor(tmp_path_factory, contents: list[bytes]) -> None:  # type: ignore[no-untyped-def]
    root = tmp_path_factory.getbasetemp() / "sensors"
    device = root / "sys/class/drm/card0/device"
    fixed = {
        "uevent": b"PCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n",
        "hwmon/hwmon1/name": b"amdgpu\n",
        "hwmon/hwmon1/temp2_label": b"junction\n",
        "hwmon/hwmon1/power1_label": b"PPT\n",
        "hwmon/hwmon1/freq1_label": b"sclk\n",
    }
    for name, raw in (*fixed.items(), *zip(FILES, contents, strict=True)):
        (device / name).parent.mkdir(parents=True, exist_ok=True)
        (device / name).write_bytes(raw)
    one = reader(ReplayedHost(root))
    sample = one.sample()
    assert all(isinstance(value, float) for value in sample.values.values())
    assert set(sample.missing).isdisjoint(sample.values)
    for fact in (one.link(), one.cap()):
        assert isinstance(fact, (Evidence, Unknown))
    assert all(limit > 0 for limit in one.heat_limits().values())


def test_numbers(tmp_path: Path) -> None:
    for name, raw in (("ok", "1500\n"), ("huge", "9" * 40), ("word", "N/A"), ("hex", "0x1002")):
        (tmp_path / name).write_text(raw)
    host = ReplayedHost(tmp_path)
    assert number(host, "/ok", 1e3) == 1.5
    assert number(host, "/hex") == 0x1002
    assert number(host, "/word") == Unknown("/word holds 'N/A', not a number")
    assert isinstance(number(host, "/huge"), Unknown)
