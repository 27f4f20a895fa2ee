"""What all samples of a device come to: the facts that the checks judge."""

from __future__ import annotations

from collections import Counter

from reefwatch.core.fact import Evidence, Fact, Json, Unknown
from reefwatch.gather.perf.quantiles import median
from reefwatch.gather.perf.reader import Reader, Sample

BUSY_PERCENT = 80.0
"""From here on a sample counts as busy: clock, heat and link of an idle card say nothing."""
ENOUGH = 5
"""Busy samples that are needed before anything is said of a busy card."""
_LINK_LOOKS = 5


class Tally:
    """Grows with each sample; keeps totals only."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.samples = 0
        self.busy = 0
        self.missing: dict[str, str] = {}
        self._utilisation: Counter[int] = Counter()
        self._clocks: Counter[int] = Counter()
        self._max_clock = 0.0
        self._reasons: Counter[str] = Counter()
        self._told = 0
        self._hot = 0
        self._hot_clocks: Counter[int] = Counter()
        self._hottest: dict[str, float] = {}
        self._limits = reader.heat_limits()
        self._used = 0.0
        self._room = 0.0
        self._spilled: list[float] = []
        self._link: Fact = Unknown("the card was never seen busy, and an idle link runs slow")
        self._links = 0

    def add(self, sample: Sample) -> None:
        self.samples += 1
        self.missing = sample.missing
        for field in ("temperature", "hotspot"):
            value = sample.get(field)
            if value is not None:
                self._hottest[field] = max(value, self._hottest.get(field, value))
        used, total = sample.get("memory_used"), sample.get("memory_total")
        if used is not None and total is not None:
            self._used, self._room = max(self._used, used), total
        spilled = sample.get("spilled")
        if spilled is not None:
            first, most = self._spilled or (spilled, spilled)
            self._spilled = [first, max(most, spilled)]
        utilisation = sample.get("utilisation")
        if utilisation is not None:
            self._utilisation[round(utilisation)] += 1
            if utilisation >= BUSY_PERCENT:
                self._add_busy(sample)

    def _add_busy(self, sample: Sample) -> None:
        self.busy += 1
        clock = sample.get("clock")
        if clock is not None:
            self._clocks[round(clock)] += 1
            self._max_clock = max(self._max_clock, sample.get("max_clock") or 0.0)
        if sample.throttle is not None:
            self._told += 1
            self._reasons.update(sample.throttle)
            if any(reason.startswith("temperature") for reason in sample.throttle):
                self._hot += 1
                if clock is not None:
                    self._hot_clocks[round(clock)] += 1
        if self._links < _LINK_LOOKS:
            self._links += 1
            self._link = _faster(self._link, self._reader.link())

    def facts(self) -> dict[str, Fact]:
        return {
            "perf.busy": self._busy(),
            "perf.heat": self._heat(),
            "perf.clock": self._clock(),
            "perf.cap": self._reader.cap(),
            "perf.room": self._memory(),
            "perf.link": self._link,
        }

    def _few(self) -> Unknown | None:
        if self.busy >= ENOUGH:
            return None
        why = self.missing.get("utilisation")
        if why and not self.busy:
            return Unknown(f"whether the card was busy is not known: {why}")
        return Unknown(
            f"the card was seen busy in {self.busy} of {self.samples} samples; {ENOUGH} are needed"
        )

    def _busy(self) -> Fact:
        looks = sum(self._utilisation.values())
        if looks < ENOUGH:
            why = self.missing.get("utilisation", f"{self.samples} samples; {ENOUGH} are needed")
            return Unknown(f"how busy the card was is not known: {why}")
        value = {"median": median(self._utilisation), "samples": looks}
        return Evidence("perf.busy", value, "%", self._reader.source)

    def _heat(self) -> Fact:
        few = self._few()
        if few is not None:
            return few
        limits = {field: self._limits[field] for field in self._limits if field in self._hottest}
        sensor = min(limits, key=lambda field: limits[field] - self._hottest[field], default=None)
        if not self._told and sensor is None:
            why = self.missing.get("throttle", "no throttle status")
            return Unknown(f"neither throttle reasons nor a temperature limit: {why}")
        share = None
        if self._hot_clocks and self._max_clock:
            share = round(median(self._hot_clocks) / self._max_clock, 3)
        if self._hot and share is None:
            return Unknown("the card tells of heat, but how fast it ran then is not known")
        value: dict[str, Json] = {
            "busy": self.busy,
            "told": self._told,
            "hot": self._hot,
            "hot_clock": share,
            "reasons": {r: n for r, n in self._reasons.items() if r.startswith("temperature")},
            "sensor": sensor,
            "hottest": self._hottest[sensor] if sensor else None,
            "limit": limits[sensor] if sensor else None,
        }
        return Evidence("perf.heat", value, "samples, degrees Celsius", self._reader.source)

    def _clock(self) -> Fact:
        few = self._few()
        if few is not None:
            return few
        looks = sum(self._clocks.values())
        if looks < ENOUGH or not self._max_clock:
            reason = self.missing.get("clock") or self.missing.get("max_clock") or "not read"
            return Unknown(f"clock or its maximum is not known: {reason}")
        usual = median(self._clocks)
        value: dict[str, Json] = {
            "busy": looks,
            "median": usual,
            "max": self._max_clock,
            "share": round(usual / self._max_clock, 3),
            "reasons": dict(self._reasons),
        }
        return Evidence("perf.clock", value, "MHz", self._reader.source)

    def _memory(self) -> Fact:
        if not self._room:
            return Unknown(self.missing.get("memory_used", "memory in use was not read"))
        value: dict[str, Json] = {
            "used": self._used,
            "total": self._room,
            "spilled": self._spilled[1] - self._spilled[0] if self._spilled else None,
        }
        return Evidence("perf.room", value, "bytes", self._reader.source)


def _faster(one: Fact, other: Fact) -> Fact:
    """The faster of two looks at a link, which sleeps between transfers."""
    if isinstance(other, Unknown) or isinstance(one, Unknown):
        return one if isinstance(other, Unknown) and isinstance(one, Evidence) else other
    return max((one, other), key=_bandwidth)


def _bandwidth(link: Evidence) -> float:
    value = link.value
    assert isinstance(value, dict)
    return float(value["width"] * value["speed"])
