"""The processor and this process, through /proc and sysfs.

Not through psutil: `psutil.cpu_percent` keeps its last times in the module, so asking it here would
change what a script that asks it too is told. Tests compare the values with psutil's.
"""

from __future__ import annotations

import os

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import Host
from reefwatch.gather.perf.amdgpu import number
from reefwatch.gather.perf.cards import mapping
from reefwatch.gather.perf.reader import Probe, Reader

_FREQUENCY = "/sys/devices/system/cpu/cpu0/cpufreq"
_SENSORS = {"coretemp": "Package id 0", "k10temp": "Tctl", "zenpower": "Tdie"}
_PAGE = os.sysconf("SC_PAGE_SIZE")


class CpuReader(Reader):
    """Utilisation of the whole machine; memory is the resident set of this process."""

    kind = "cpu"

    def __init__(self, host: Host) -> None:
        self._host = host
        self._last = self._times()
        self.source = "/proc, sysfs"
        self.name = _model(host)
        probes: dict[str, Probe] = {
            "clock": lambda: number(host, f"{_FREQUENCY}/scaling_cur_freq", 1e3),
            "max_clock": lambda: number(host, f"{_FREQUENCY}/cpuinfo_max_freq", 1e3),
            "utilisation": self._utilisation,
            "memory_used": self._resident,
            "memory_total": lambda: total_memory(host),
        }
        sensor = self._sensor()
        if sensor:
            probes["temperature"] = lambda: number(host, sensor, 1e3)
        super().__init__(probes, "no such sensor was found for the processor")

    def _sensor(self) -> str:
        """The input file of the package temperature; empty when there is none."""
        for hwmon in self._host.find("/sys/class/hwmon/hwmon*"):
            wanted = _SENSORS.get(str(self._host.read(f"{hwmon}/name")))
            for path in self._host.find(f"{hwmon}/temp*_label") if wanted else ():
                if self._host.read(path) == wanted:
                    return path.removesuffix("_label") + "_input"
        return ""

    def _times(self) -> tuple[float, float] | Unknown:
        """(busy, all) ticks since boot."""
        text = self._host.read("/proc/stat")
        if isinstance(text, Unknown):
            return text
        words = text.split("\n", 1)[0].split()
        if words[:1] != ["cpu"] or len(words) < 5 or not all(w.isdecimal() for w in words[1:]):
            return Unknown("/proc/stat does not begin with the times of the processor")
        ticks = [float(word[:18]) for word in words[1:9]]  # guest times are part of user's
        return sum(ticks) - sum(ticks[3:5]), sum(ticks)

    def _utilisation(self) -> float | Unknown:
        now, last = self._times(), self._last
        self._last = now
        if isinstance(now, Unknown):
            return now
        if isinstance(last, Unknown) or now[1] <= last[1]:
            return Unknown("no time has passed since the last look")
        return min(100.0, max(0.0, 100.0 * (now[0] - last[0]) / (now[1] - last[1])))

    def _resident(self) -> float | Unknown:
        return resident(self._host)


def resident(host: Host) -> float | Unknown:
    """Bytes of this process in memory."""
    text = host.read("/proc/self/statm")
    if isinstance(text, Unknown):
        return text
    words = text.split()
    if len(words) < 2 or not words[1].isdecimal():
        return Unknown("/proc/self/statm has no resident size")
    return float(words[1][:15]) * _PAGE


def total_memory(host: Host) -> float | Unknown:
    """Bytes of memory of the machine; a container's limit may be lower."""
    words = mapping(host.read("/proc/meminfo"), ":").get("MemTotal", "").split()
    if len(words) != 2 or not words[0].isdecimal():
        return Unknown("/proc/meminfo has no MemTotal")
    return float(words[0][:15]) * 1024


def _model(host: Host) -> str:
    """The processor's name."""
    return mapping(host.read("/proc/cpuinfo"), ":").get("model name", "CPU")
