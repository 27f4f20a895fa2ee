"""What a telemetry reader is: named probes, each with a value or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from reefwatch.core.fact import Fact, Unknown

FIELDS = (
    "temperature",
    "hotspot",
    "power",
    "power_cap",
    "clock",
    "max_clock",
    "utilisation",
    "memory_used",
    "memory_total",
    "spilled",
)
"""Degrees Celsius, watts, MHz, percent, bytes. `spilled`: system memory that the GPU maps."""

Number: TypeAlias = "float | Unknown"
Probe: TypeAlias = Callable[[], "float | Unknown"]
Reasons: TypeAlias = "tuple[str, ...] | Unknown"

_TRIES = 3
"""A probe that fails so often in a row is not asked again: a refused read costs time too."""


class Sample:
    """One look at a device. `missing` says, by field, why a value is not there."""

    __slots__ = ("missing", "throttle", "values")

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.throttle: tuple[str, ...] | None = None
        self.missing: dict[str, str] = {}

    def get(self, field: str) -> float | None:
        return self.values.get(field)

    def row(self) -> dict[str, object]:
        """The data of a `perf.sample` event."""
        row: dict[str, object] = {
            field: round(self.values[field], 3) if field in self.values else None
            for field in FIELDS
        }
        row["throttle"] = None if self.throttle is None else list(self.throttle)
        return row


class Reader:
    """A device that can be asked. Probes never raise: `attempt` guards those that call out."""

    kind = ""
    """amd, nvidia or cpu."""
    name = ""
    source = ""

    def __init__(self, probes: Mapping[str, Probe], absent: str) -> None:
        self._probes = dict(probes)
        self._failures: dict[str, int] = {}
        self._missing = {field: absent for field in FIELDS if field not in probes}

    def sample(self) -> Sample:
        sample = Sample()
        for field, probe in tuple(self._probes.items()):
            value = probe()
            if isinstance(value, Unknown):
                self._missing[field] = value.reason
                self._failures[field] = self._failures.get(field, 0) + 1
                if self._failures[field] >= _TRIES:
                    del self._probes[field]
            else:
                self._failures.pop(field, None)
                self._missing.pop(field, None)
                sample.values[field] = value
        reasons = self.throttle()
        if isinstance(reasons, Unknown):
            self._missing["throttle"] = reasons.reason
        else:
            self._missing.pop("throttle", None)
            sample.throttle = reasons
        sample.missing = dict(self._missing)
        return sample

    def throttle(self) -> Reasons:
        """Why the device says that it is slowed down, in words that begin with the kind of reason:
        `temperature`, `power`, `current`, `hardware`, `setting`, `other`.
        """
        return Unknown(f"{self.source} gives no throttle status")

    def link(self) -> Fact:
        """The PCIe link as it is now: width and speed (GT/s), with what they could be."""
        return Unknown(f"{self.source} gives no link")

    def cap(self) -> Fact:
        """The power limit in force and the card's own, in watts."""
        return Unknown(f"{self.source} gives no power limit")

    def heat_limits(self) -> dict[str, float]:
        """By field, the temperature at which the device slows itself down."""
        return {}

    def close(self) -> None:
        """Give back what was opened."""


def constant(value: float | Unknown) -> Probe:
    """A probe for what does not change while the run goes on."""
    return lambda: value
