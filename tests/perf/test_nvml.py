"""The NVML reader on a pynvml that pretends."""

from __future__ import annotations

import pytest
from perf_stage import NVMLError, PretendNvml

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.perf.cards import TorchDevice
from reefwatch.gather.perf.nvml import NvmlReader, open_nvml

H200 = TorchDevice(0, "NVIDIA H200", False, "0000:19:00.0", None, False)


def opened(nvml: PretendNvml, device: TorchDevice = H200) -> NvmlReader:
    reader = open_nvml(nvml, device, {})
    assert isinstance(reader, NvmlReader), reader
    return reader


def test_a_sample() -> None:
    sample = opened(PretendNvml()).sample()
    assert sample.values == {
        "temperature": 61.0,
        "power": 512.345,
        "power_cap": 700.0,
        "clock": 1740.0,
        "max_clock": 1980.0,
        "utilisation": 97.0,
        "memory_used": float(20 << 30),
        "memory_total": float(140 << 30),
    }
    assert sample.throttle == ("power: cap",)
    assert sample.missing == {
        "hotspot": "NVML does not tell it",
        "spilled": "NVML does not tell it",
    }


def test_link_cap_and_heat() -> None:
    reader = opened(PretendNvml(nvmlDeviceGetCurrPcieLinkGeneration=3))
    link, cap = reader.link(), reader.cap()
    assert isinstance(link, Evidence) and isinstance(cap, Evidence)
    assert link.value == {"width": 16.0, "max_width": 16.0, "speed": 8.0, "max_speed": 32.0}
    assert cap.value == {"cap": 700.0, "default": 700.0}
    assert reader.heat_limits() == {"temperature": 89.0}


def test_what_nvml_refuses_has_its_reason_and_is_not_asked_for_ever() -> None:
    refuse = NVMLError("Not Supported")
    nvml = PretendNvml(
        nvmlDeviceGetPowerUsage=refuse,
        nvmlDeviceGetMemoryInfo=refuse,
        nvmlDeviceGetCurrPcieLinkWidth=refuse,
        nvmlDeviceGetTemperatureThreshold=refuse,
        nvmlDeviceGetPowerManagementDefaultLimit=refuse,
    )
    reader = opened(nvml)
    for _ in range(5):
        sample = reader.sample()
    assert sample.missing["power"] == "nvmlDeviceGetPowerUsage: Not Supported"
    assert sample.missing["memory_total"] == "nvmlDeviceGetMemoryInfo: Not Supported"
    assert sample.get("clock") == 1740.0
    assert nvml.asked.count("nvmlDeviceGetPowerUsage") == 3
    assert reader.link() == Unknown("nvmlDeviceGetCurrPcieLinkWidth: Not Supported")
    assert reader.cap() == Unknown("nvmlDeviceGetPowerManagementDefaultLimit: Not Supported")
    assert reader.heat_limits() == {}


def test_throttle_reasons_by_the_old_name() -> None:
    nvml = PretendNvml(nvmlDeviceGetCurrentClocksThrottleReasons=0x20)
    del nvml.answers["nvmlDeviceGetCurrentClocksEventReasons"]
    assert opened(nvml).throttle() == ("temperature: driver",)
    refused = PretendNvml(nvmlDeviceGetCurrentClocksEventReasons=NVMLError("Not Supported"))
    reader = opened(refused)
    assert reader.throttle() == reader.throttle()
    assert refused.asked.count("nvmlDeviceGetCurrentClocksEventReasons") == 1


def test_answers_of_another_kind_are_no_values() -> None:
    reader = opened(PretendNvml(nvmlDeviceGetTemperature="hot", nvmlDeviceGetClockInfo=None))
    sample = reader.sample()
    assert sample.missing["temperature"] == "nvmlDeviceGetTemperature answered 'hot'"
    assert sample.missing["clock"] == "nvmlDeviceGetClockInfo answered None"


def test_the_card_is_found_by_slot_then_uuid_then_order() -> None:
    gone = NVMLError("Not Found")
    nvml = PretendNvml(nvmlDeviceGetHandleByPciBusId=gone)
    by_uuid = TorchDevice(0, "x", False, "0000:19:00.0", "1234", None)
    opened(nvml, by_uuid)
    assert "nvmlDeviceGetHandleByUUID" in nvml.asked
    nvml = PretendNvml()
    opened(nvml, TorchDevice(0, "x", False, None, None, None))
    assert "nvmlDeviceGetHandleByIndex" in nvml.asked
    several = PretendNvml(nvmlDeviceGetCount=2)
    nameless = TorchDevice(0, "x", False, None, None, None)
    lost = open_nvml(several, nameless, {})
    assert isinstance(lost, Unknown) and "another order" in lost.reason
    assert isinstance(open_nvml(several, nameless, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}), NvmlReader)


def test_nvml_is_closed_as_often_as_opened() -> None:
    nvml = PretendNvml()
    opened(nvml).close()
    assert nvml.open == 0
    hidden = open_nvml(nvml, TorchDevice(3, "x", False, None, None, None), {})
    assert isinstance(hidden, Unknown) and nvml.open == 0


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = PretendNvml()

    def absent() -> None:
        raise NVMLError("Driver Not Loaded")

    monkeypatch.setattr(nvml, "nvmlInit", absent)
    told = open_nvml(nvml, H200, {})
    assert isinstance(told, Unknown)
    assert told.reason.endswith("absent: Driver Not Loaded")


def test_the_functions_exist_in_the_real_pynvml() -> None:
    import pynvml

    asked = set(PretendNvml().answers) - {"nvmlDeviceGetCurrentClocksEventReasons"}
    assert [name for name in asked if not callable(getattr(pynvml, name, None))] == []
    assert (pynvml.NVML_TEMPERATURE_GPU, pynvml.NVML_CLOCK_SM) == (0, 1)
    assert pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN == 1
    words = {
        0x4: pynvml.nvmlClocksEventReasonSwPowerCap,
        0x8: pynvml.nvmlClocksEventReasonHwSlowdown,
        0x20: pynvml.nvmlClocksEventReasonSwThermalSlowdown,
        0x40: pynvml.nvmlClocksEventReasonHwThermalSlowdown,
        0x80: pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    }
    assert all(bit == constant for bit, constant in words.items())
