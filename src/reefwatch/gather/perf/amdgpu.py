"""An AMD GPU through sysfs: no ROCm tool, no root. Source: Linux, Documentation/gpu/amdgpu."""

from __future__ import annotations

import re

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.gather.host import Host
from reefwatch.gather.perf.cards import (
    Card,
    Node,
    hwmon_labels,
    integer,
    kfd_nodes,
    same_slot,
)
from reefwatch.gather.perf.reader import Probe, Reader, Reasons, constant
from reefwatch.gather.perf.throttle import amd_reasons

_LEVEL = re.compile(r"^(\w+):\s*(\d+)\s*mhz\s*(\*)?", re.IGNORECASE | re.MULTILINE)
_SPEED = re.compile(r"([\d.]+)\s*GT/s")
_OD_TOP = re.compile(r"^OD_SCLK:\s+0:[^\n]*\n1:\s*(\d+)\s*mhz", re.IGNORECASE | re.MULTILINE)
_HUGE = 10**18


def number(host: Host, path: str, unit: float = 1.0) -> float | Unknown:
    """A whole number in a file, divided by `unit`; Unknown when it is none or is absurd."""
    text = host.read(path)
    if isinstance(text, Unknown):
        return text
    value = integer(text)
    if isinstance(value, Unknown) or abs(value) > _HUGE:
        return Unknown(f"{path} holds {text[:40]!r}, not a number")
    return value / unit


def levels(text: str) -> tuple[list[int], int | None]:
    """(clocks in MHz, the current one) of a pp_dpm_* table.

    The lines are not in order, the index may be the letter S (deep sleep), and on RDNA3 the line
    with the star is the clock itself between the levels.
    """
    found = [(int(clock[:9]), star) for _, clock, star in _LEVEL.findall(text)]
    current = next((clock for clock, star in found if star), None)
    return [clock for clock, _ in found], current


class AmdgpuReader(Reader):
    """The probes of one card."""

    kind = "amd"

    def __init__(self, host: Host, card: Card, name: str = "") -> None:
        self._host = host
        self._folder = card.folder
        self._slot = card.slot
        self._labels = hwmon_labels(host, card.folder)
        node = next((node for node in kfd_nodes(host) if same_slot(node.slot, card.slot)), None)
        self.name = name or f"AMD {card.vendor}:{card.device}"
        self.source = f"sysfs {card.folder}"
        self._power = self._labels.get("PPT", "")
        super().__init__(self._found(card, node), f"{self.source} has no such sensor")

    def _found(self, card: Card, node: Node | None) -> dict[str, Probe]:
        host, folder = self._host, self._folder
        probes: dict[str, Probe] = {
            "clock": self._clock,
            "max_clock": constant(self._max_clock(node)),
            "utilisation": lambda: number(host, f"{folder}/gpu_busy_percent"),
            "spilled": lambda: number(host, f"{folder}/mem_info_gtt_used"),
        }
        for field, label in (("temperature", "edge"), ("hotspot", "junction")):
            if label in self._labels:
                probes[field] = self._sensor(f"{self._labels[label]}_input", 1e3)
        if self._power:
            probes["power"] = self._watts
            probes["power_cap"] = self._sensor(f"{self._power}_cap", 1e6)
        heaps = ("vram", "gtt") if card.integrated else ("vram",)
        for field, word in (("memory_used", "used"), ("memory_total", "total")):
            probes[field] = self._memory([f"{folder}/mem_info_{heap}_{word}" for heap in heaps])
        return probes

    def _sensor(self, path: str, unit: float) -> Probe:
        return lambda: number(self._host, path, unit)

    def _memory(self, paths: list[str]) -> Probe:
        """An APU computes in its carve-out and in system memory: both count."""

        def probe() -> float | Unknown:
            total = 0.0
            for path in paths:
                value = number(self._host, path)
                if isinstance(value, Unknown):
                    return value
                total += value
            return total

        return probe

    def _watts(self) -> float | Unknown:
        """`power1_average` where there is one, else `power1_input` (newer and smaller cards)."""
        average = number(self._host, f"{self._power}_average", 1e6)
        if not isinstance(average, Unknown):
            return average
        instant = number(self._host, f"{self._power}_input", 1e6)
        return average if isinstance(instant, Unknown) else instant

    def _clock(self) -> float | Unknown:
        if "sclk" in self._labels:
            hertz = number(self._host, f"{self._labels['sclk']}_input", 1e6)
            if not isinstance(hertz, Unknown):
                return hertz
        path = f"{self._folder}/pp_dpm_sclk"
        text = self._host.read(path)
        if isinstance(text, Unknown):
            return text
        current = levels(text)[1]
        return Unknown(f"{path} marks no current clock") if current is None else float(current)

    def _max_clock(self, node: Node | None) -> float | Unknown:
        """KFD's engine clock; else the top of the overdrive or level table, which may be lower."""
        if node is not None and 0 < node.max_clock < 10**5:
            return float(node.max_clock)
        texts = [
            self._host.read(f"{self._folder}/{f}") for f in ("pp_od_clk_voltage", "pp_dpm_sclk")
        ]
        if isinstance(texts[0], str) and (top := _OD_TOP.search(texts[0])):
            return float(top[1][:9])
        if isinstance(texts[1], Unknown):
            return texts[1]
        clocks = levels(texts[1])[0]
        if not clocks:
            return Unknown(f"{self._folder}/pp_dpm_sclk lists no clock")
        return float(max(clocks))

    def throttle(self) -> Reasons:
        raw = self._host.read_bytes(f"{self._folder}/gpu_metrics")
        return raw if isinstance(raw, Unknown) else amd_reasons(raw)

    def heat_limits(self) -> dict[str, float]:
        limits = {}
        for field, label in (("temperature", "edge"), ("hotspot", "junction")):
            if label in self._labels:
                crit = number(self._host, f"{self._labels[label]}_crit", 1e3)
                if not isinstance(crit, Unknown) and crit > 0:
                    limits[field] = crit
        return limits

    def cap(self) -> Fact:
        if not self._power:
            return Unknown(f"{self.source} has no power sensor")
        values = {}
        for word, suffix in (("cap", "cap"), ("default", "cap_default")):
            value = number(self._host, f"{self._power}_{suffix}", 1e6)
            if isinstance(value, Unknown):
                return value
            values[word] = value
        if min(values.values()) <= 0:
            return Unknown(f"{self.source} gives a power limit of 0 W")
        return Evidence("perf.cap", values, "W", self.source)

    def link(self) -> Fact:
        """The narrowest hop between the card and the processor that belongs to the card.

        A discrete AMD card has a switch of its own: the GPU's own link is inside the card and
        always wide, and the slot is the link of the switch's upstream port, two devices above.
        """
        hops = [self._hop(folder) for folder in self._path()]
        known = [hop for hop in hops if not isinstance(hop, Unknown)]
        if not known:
            first = hops[0]
            assert isinstance(first, Unknown)
            return first
        slowest = min(known, key=lambda hop: hop["width"] * hop["speed"])
        return Evidence("perf.link", slowest, "lanes, GT/s", self.source)

    def _path(self) -> list[str]:
        """The GPU's folder and those of the AMD bridges right above it."""
        folders = [self._folder]
        target = self._host.target(f"/sys/bus/pci/devices/{self._slot}")
        if isinstance(target, Unknown):
            return folders
        above = target.rpartition("/")[0]
        while self._host.read(f"{above}/vendor") == "0x1002":
            folders.append(above)
            above = above.rpartition("/")[0]
        return folders

    def _hop(self, folder: str) -> dict[str, float] | Unknown:
        hop: dict[str, float] = {}
        for word, file in (("width", "current_link_width"), ("max_width", "max_link_width")):
            value = number(self._host, f"{folder}/{file}")
            if isinstance(value, Unknown):
                return value
            hop[word] = value
        for word, file in (("speed", "current_link_speed"), ("max_speed", "max_link_speed")):
            path = f"{folder}/{file}"
            text = self._host.read(path)
            if isinstance(text, Unknown):
                return text
            match = _SPEED.match(text)
            try:
                hop[word] = float(match[1]) if match else 0.0
            except ValueError:
                hop[word] = 0.0
            if not hop[word]:
                return Unknown(f"{path} holds {text[:40]!r}, not a speed")
        return hop
