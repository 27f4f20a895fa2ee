"""What the tests of this folder play with: a sink that keeps, a torch and an NVML that pretend."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.record import Event, Record
from reefwatch.gather.host import ReplayedHost
from reefwatch.gather.instrument import Tools

SYSFS = Path(__file__).parents[1] / "data" / "sysfs"


class Sink:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.events: list[Event] = []

    def fact(self, name: str, fact: Fact) -> None:
        self.facts[name] = fact

    def event(
        self, kind: str, data: Mapping[str, Any], *, step: int | None = None, id: str | None = None
    ) -> None:
        self.events.append(Event(kind, dict(data), step, id))

    def tensor(self, name: str, raw: bytes, dtype: str, shape: tuple[int, ...]) -> None:
        raise AssertionError("no tensor is kept by the instruments of this contract")

    def value(self, name: str) -> Any:
        fact = self.facts[name]
        assert isinstance(fact, Evidence), fact
        return fact.value

    def reason(self, name: str) -> str:
        fact = self.facts[name]
        assert isinstance(fact, Unknown), fact
        return fact.reason

    def rows(self, kind: str) -> list[Mapping[str, Any]]:
        return [event.data for event in self.events if event.kind == kind]

    def record(self) -> Record:
        return Record(facts=self.facts, events=tuple(self.events))


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def tools(torch: Any, sink: Sink, clock: Any, **options: Any) -> Tools:
    return Tools(torch, sink, clock, None, dict(options))


def pretend_torch(
    name: str = "AMD Radeon RX 7900 XTX",
    *,
    slot: tuple[int, int, int] | None = (0, 3, 0),
    hip: bool = True,
    initialized: bool = True,
    peak: int = 1 << 30,
    integrated: bool | None = False,
    uuid: str | None = None,
) -> Any:
    """A torch with one GPU, as far as these instruments ask."""
    props = SimpleNamespace(name=name)
    if slot is not None:
        props.pci_domain_id, props.pci_bus_id, props.pci_device_id = slot
    if integrated is not None:
        props.is_integrated = integrated
    if uuid is not None:
        props.uuid = uuid
    state = {
        "allocated_bytes": {"all": {"current": peak // 2, "peak": peak}},
        "reserved_bytes": {"all": {"current": peak, "peak": peak}},
        "num_alloc_retries": 0,
    }
    cuda = SimpleNamespace(
        state=state,
        is_initialized=lambda: initialized,
        device_count=lambda: 1,
        current_device=lambda: 0,
        get_device_properties=lambda index: props,
        memory_stats_as_nested_dict=lambda index=None: state,
    )
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip="7.2" if hip else None))


class NVMLError(Exception):
    """As NVML's errors: a text."""


class PretendNvml:
    """pynvml with one H200-like card. `refuse` names functions that answer "Not Supported"."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1

    def __init__(self, **answers: Any) -> None:
        self.asked: list[str] = []
        self.open = 0
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetHandleByPciBusId": "handle",
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetUUID": "GPU-1234",
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetPowerUsage": 512_345,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
            "nvmlDeviceGetClockInfo": 1740,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=40),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=20 << 30, total=140 << 30),
            "nvmlDeviceGetTemperatureThreshold": 89,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
            **answers,
        }

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AttributeError(name)

        def function(*args: Any) -> Any:
            self.asked.append(name)
            answer = self.answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        function.__name__ = name
        return function


def strix(root: Path, discrete: bool = True) -> ReplayedHost:
    """A laptop as the notes on a Strix Point processor describe it, with a discrete card beside."""
    files = {
        "card1/device/uevent": "PCI_CLASS=38000\nPCI_ID=1002:150E\nPCI_SLOT_NAME=0000:c1:00.0\n",
        "card1/device/vendor": "0x1002\n",
        "card1/device/mem_info_vram_total": "536870912\n",
        "card1/device/mem_info_vram_used": "514580480\n",
        "card1/device/mem_info_gtt_total": "16441004032\n",
        "card1/device/mem_info_gtt_used": "3946811392\n",
        "card1/device/hwmon/hwmon3/name": "amdgpu\n",
        "card1/device/hwmon/hwmon3/in1_label": "vddnb\n",
        "card1/device/hwmon/hwmon3/temp1_label": "edge\n",
        "card1/device/hwmon/hwmon3/temp1_input": "51000\n",
        "card1/device/hwmon/hwmon3/power1_label": "PPT\n",
        "card1/device/hwmon/hwmon3/power1_input": "9087000\n",
        "card1-eDP-1/status": "connected\n",
    }
    if discrete:
        files["card0/device/uevent"] = "PCI_ID=1002:7550\nPCI_SLOT_NAME=0000:03:00.0\n"
        files["card0/device/hwmon/hwmon4/name"] = "amdgpu\n"
        files["card0/device/hwmon/hwmon4/temp2_label"] = "junction\n"
    for name, text in files.items():
        path = root / "sys/class/drm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return ReplayedHost(root)
