"""An NVIDIA GPU through NVML. Source: the NVML API reference; units as it gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.gather.perf.cards import TorchDevice, visible
from reefwatch.gather.perf.reader import Reader, Reasons, constant
from reefwatch.gather.perf.throttle import nvidia_reasons

_SPEED = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""GT/s by PCIe generation."""


def ask(function: Callable[..., Any], *args: Any) -> Any:
    """What NVML answers; Unknown with its error. Any error: the library may be mocked or gone."""
    try:
        return function(*args)
    except Exception as error:
        name = getattr(function, "__name__", "NVML")
        return Unknown(f"{name}: {str(error) or type(error).__name__}")


class NvmlReader(Reader):
    """The probes of one card. `nvml` is the module pynvml."""

    kind = "nvidia"
    source = "NVML"

    def __init__(self, nvml: Any, handle: Any, name: str) -> None:
        self._nvml = nvml
        self._handle = handle
        self._memory: Any = Unknown("not asked yet")
        self._no_reasons: Unknown | None = None
        self.name = name
        temperature = getattr(nvml, "NVML_TEMPERATURE_GPU", 0)
        sm = getattr(nvml, "NVML_CLOCK_SM", 1)
        top = self._ask("nvmlDeviceGetMaxClockInfo", sm)
        super().__init__(
            {
                "temperature": lambda: self._scaled("nvmlDeviceGetTemperature", 1.0, temperature),
                "power": lambda: self._scaled("nvmlDeviceGetPowerUsage", 1e3),
                "power_cap": lambda: self._scaled("nvmlDeviceGetEnforcedPowerLimit", 1e3),
                "clock": lambda: self._scaled("nvmlDeviceGetClockInfo", 1.0, sm),
                "max_clock": constant(top if isinstance(top, Unknown) else float(top)),
                "utilisation": self._utilisation,
                "memory_used": self._memory_used,
                "memory_total": self._memory_total,
            },
            "NVML does not tell it",
        )

    def _ask(self, name: str, *args: Any) -> Any:
        function = getattr(self._nvml, name, None)
        if function is None:
            return Unknown(f"this NVML has no {name}")
        return ask(function, self._handle, *args)

    def _scaled(self, name: str, unit: float, *args: Any) -> float | Unknown:
        value = self._ask(name, *args)
        if isinstance(value, Unknown):
            return value
        if not isinstance(value, (int, float)):
            return Unknown(f"{name} answered {value!r:.40}")
        return value / unit

    def _utilisation(self) -> float | Unknown:
        rates = self._ask("nvmlDeviceGetUtilizationRates")
        return rates if isinstance(rates, Unknown) else float(rates.gpu)

    def _memory_used(self) -> float | Unknown:
        self._memory = self._ask("nvmlDeviceGetMemoryInfo")
        return self._memory if isinstance(self._memory, Unknown) else float(self._memory.used)

    def _memory_total(self) -> float | Unknown:
        """Of the answer that `memory_used` got just before."""
        return self._memory if isinstance(self._memory, Unknown) else float(self._memory.total)

    def throttle(self) -> Reasons:
        if self._no_reasons is not None:
            return self._no_reasons
        mask = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if isinstance(mask, Unknown):  # the name before driver 535
            mask = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        if not isinstance(mask, int):
            reason = mask.reason if isinstance(mask, Unknown) else f"NVML answered {mask!r:.40}"
            self._no_reasons = Unknown(reason)
            return self._no_reasons
        return nvidia_reasons(mask)

    def heat_limits(self) -> dict[str, float]:
        slowdown = getattr(self._nvml, "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN", 1)
        limit = self._scaled("nvmlDeviceGetTemperatureThreshold", 1.0, slowdown)
        return {} if isinstance(limit, Unknown) or limit <= 0 else {"temperature": limit}

    def cap(self) -> Fact:
        cap = self._scaled("nvmlDeviceGetEnforcedPowerLimit", 1e3)
        default = self._scaled("nvmlDeviceGetPowerManagementDefaultLimit", 1e3)
        if isinstance(cap, Unknown):
            return cap
        if isinstance(default, Unknown):
            return default
        if cap <= 0 or default <= 0:
            return Unknown("NVML gives a power limit of 0 W")
        return Evidence("perf.cap", {"cap": cap, "default": default}, "W", self.source)

    def link(self) -> Fact:
        """Width and speed now, and the most that card and slot can do together."""
        found: dict[str, float] = {}
        for word, name in (
            ("width", "nvmlDeviceGetCurrPcieLinkWidth"),
            ("max_width", "nvmlDeviceGetMaxPcieLinkWidth"),
            ("speed", "nvmlDeviceGetCurrPcieLinkGeneration"),
            ("max_speed", "nvmlDeviceGetMaxPcieLinkGeneration"),
        ):
            value = self._scaled(name, 1.0)
            if isinstance(value, Unknown):
                return value
            found[word] = _SPEED.get(int(value), 0.0) if "speed" in word else value
        if not all(found.values()):
            return Unknown(f"NVML tells no PCIe link: {found}")
        return Evidence("perf.link", found, "lanes, GT/s", self.source)

    def close(self) -> None:
        ask(self._nvml.nvmlShutdown)


def open_nvml(nvml: Any, device: TorchDevice, environ: Mapping[str, str]) -> NvmlReader | Unknown:
    """The reader of torch's device: by PCI slot, else by uuid, else by CUDA_VISIBLE_DEVICES."""
    begun = ask(nvml.nvmlInit)
    if isinstance(begun, Unknown):
        return Unknown(f"NVML could not be opened: {begun.reason}")
    handle: Any = Unknown("torch names neither PCI slot nor uuid")
    if device.slot is not None:
        handle = ask(nvml.nvmlDeviceGetHandleByPciBusId, device.slot)
    if isinstance(handle, Unknown) and device.uuid is not None:
        uuid = device.uuid if device.uuid.startswith("GPU-") else f"GPU-{device.uuid}"
        handle = ask(nvml.nvmlDeviceGetHandleByUUID, uuid)
    if isinstance(handle, Unknown):
        handle = _by_order(nvml, device, environ)
    if isinstance(handle, Unknown):
        ask(nvml.nvmlShutdown)
        return Unknown(f"torch's device was not found through NVML: {handle.reason}")
    return NvmlReader(nvml, handle, device.name)


def _by_order(nvml: Any, device: TorchDevice, environ: Mapping[str, str]) -> Any:
    """By index. CUDA counts the fastest first unless CUDA_DEVICE_ORDER says PCI_BUS_ID: with one
    card in the machine the two agree.
    """
    count = ask(nvml.nvmlDeviceGetCount)
    if isinstance(count, Unknown):
        return count
    if count > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return Unknown("several cards, and torch counts them in another order than NVML")
    uuids = []
    for n in range(count):
        uuid = ask(lambda n=n: nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(n)))
        uuids.append("" if isinstance(uuid, Unknown) else str(uuid))
    order = visible(uuids, environ, hip=False)
    if device.index >= len(order):
        return Unknown(f"torch uses device {device.index}, and {len(order)} are visible")
    return ask(nvml.nvmlDeviceGetHandleByIndex, order[device.index])
