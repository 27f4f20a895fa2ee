"""Hardware state at step boundaries: temperature, power, clocks, utilisation, memory."""

from __future__ import annotations

from typing import Any

from reefwatch.core.fact import Evidence, Fact, Json, Unknown
from reefwatch.gather.host import Host, LiveHost
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.perf.amdgpu import AmdgpuReader
from reefwatch.gather.perf.cards import (
    TorchDevice,
    Unused,
    drm_cards,
    find_card,
    same_slot,
    torch_device,
)
from reefwatch.gather.perf.cpu import CpuReader
from reefwatch.gather.perf.nvml import open_nvml
from reefwatch.gather.perf.quantiles import Sketch
from reefwatch.gather.perf.reader import Reader
from reefwatch.gather.perf.tally import Tally

INTERVAL = 1.0
"""Seconds between samples, at least."""
COST_SHARE = 0.002
"""A sample that takes long is taken more seldom, so that all of them keep to this share of time."""
_MOST_SECONDS = 60.0
_WRITE_EVERY = 10
"""Samples between two writings of the facts: a run that is killed leaves the last ones."""
_GPU_FACTS = (
    "perf.busy",
    "perf.heat",
    "perf.clock",
    "perf.cap",
    "perf.room",
    "perf.link",
    "perf.cards",
)


class Telemetry(Instrument):
    """One sample a second at most, in the thread that trains (docs/decisions/0003)."""

    name = "telemetry"
    contract = "perf"

    def __init__(self, host: Host | None = None, nvml: Any = None) -> None:
        self._host = host or LiveHost()
        self._nvml = nvml
        self._tools: Tools | None = None
        self._reader: Reader | None = None
        self._tally: Tally | None = None
        self._device: TorchDevice | Unknown = Unknown("no step has ended yet")
        self._trouble: Unknown | None = None
        """Why the GPU in use could not be read."""
        self._cards: Fact | None = None
        self._began = self._next = 0.0
        self._costs = Sketch()

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._began = self._next = tools.clock()

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        tools = self._tools
        if tools is None or (now := tools.clock()) < self._next:
            return
        self._settle(tools)
        began = tools.clock()
        self._sample(tools, step, now)
        cost = tools.clock() - began
        self._costs.add(cost)
        self._next = now + min(_MOST_SECONDS, max(INTERVAL, cost / COST_SHARE))
        if self._costs.count % _WRITE_EVERY == 1:
            self._write(tools)

    def release(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def disarm(self) -> None:
        if self._tools is None:
            return
        self._settle(self._tools)
        self._write(self._tools)
        if self._reader is not None:
            self._reader.close()
        self._reader = self._tools = None

    def _settle(self, tools: Tools) -> None:
        """Find the device that torch uses; a run may begin on the CPU and go on on a GPU."""
        if isinstance(self._device, TorchDevice):
            return
        self._device = torch_device(tools.torch)
        reader: Reader | Unknown | None = None
        if isinstance(self._device, TorchDevice):
            reader = self._open(self._device)
        elif self._reader is None:
            reader = CpuReader(self._host)
        if isinstance(reader, Unknown):
            self._trouble = reader
            self._reader = self._tally = None
        elif reader is not None:
            self._reader, self._tally = reader, Tally(reader)

    def _open(self, device: TorchDevice) -> Reader | Unknown:
        if not device.hip:
            nvml = self._nvml or _pynvml()
            if isinstance(nvml, Unknown):
                return nvml
            return open_nvml(nvml, device, self._host.environ)
        card = find_card(self._host, device, self._host.environ)
        return card if isinstance(card, Unknown) else AmdgpuReader(self._host, card, device.name)

    def _sample(self, tools: Tools, step: int, now: float) -> None:
        if self._reader is None or self._tally is None:
            return
        sample = self._reader.sample()
        self._tally.add(sample)
        row = {"t": round(now - self._began, 3), **sample.row()}
        tools.sink.event("perf.sample", row, step=step)

    def _write(self, tools: Tools) -> None:
        for name, fact in self._facts().items():
            tools.sink.fact(name, fact)

    def _facts(self) -> dict[str, Fact]:
        device = self._device
        if isinstance(device, Unknown):
            facts: dict[str, Fact] = {
                "perf.gpu": Evidence("perf.gpu", False, source=device.reason)
                if isinstance(device, Unused)
                else device,
                "perf.device": self._described(),
            }
            why = Unknown("no GPU was used") if isinstance(device, Unused) else device
            facts.update(dict.fromkeys(_GPU_FACTS, why))
            return facts
        facts = {"perf.gpu": Evidence("perf.gpu", True, source=f"torch: {device.name}")}
        facts["perf.device"] = self._described()
        if self._cards is None:
            self._cards = self._look_for_cards(device)
        facts["perf.cards"] = self._cards
        if self._tally is not None:
            facts.update(self._tally.facts())
        else:
            why = self._trouble or Unknown("the GPU was not read")
            facts.update({name: why for name in _GPU_FACTS if name != "perf.cards"})
        return facts

    def _described(self) -> Fact:
        reader, tally = self._reader, self._tally
        if reader is None or tally is None:
            return self._trouble or Unknown("no step has ended yet")
        count = self._costs.count
        value: dict[str, Json] = {
            "kind": reader.kind,
            "name": reader.name,
            "source": reader.source,
            "interval": max(INTERVAL, self._costs.quantile(0.5) / COST_SHARE)
            if count
            else INTERVAL,
            "samples": tally.samples,
            "cost": self._costs.quantile(0.5) if count else None,
            "missing": dict(tally.missing),
        }
        return Evidence("perf.device", value, source=reader.source)

    def _look_for_cards(self, device: TorchDevice) -> Fact:
        if not device.hip:
            if device.integrated is None:
                return Unknown(f"this torch does not say whether {device.name} is integrated")
            row: dict[str, Json] = {
                "name": device.name,
                "integrated": device.integrated,
                "used": True,
                "vram": None,
            }
            return Evidence("perf.cards", [row], source="torch; other cards were not looked for")
        used = find_card(self._host, device, self._host.environ)
        if isinstance(used, Unknown):
            return used
        if used.integrated is None and device.integrated is None:
            return Unknown(f"nothing tells whether {device.name} is part of the processor")
        rows: list[Json] = []
        for card in drm_cards(self._host):
            mine = same_slot(card.slot, used.slot)
            integrated = device.integrated if mine and card.integrated is None else card.integrated
            name = device.name if mine else f"{card.vendor}:{card.device} at {card.slot}"
            rows.append({"name": name, "integrated": integrated, "used": mine, "vram": card.vram})
        return Evidence("perf.cards", rows, "bytes", "/sys/class/drm, KFD topology")


def _pynvml() -> Any:
    """Torch imports pynvml itself where it is installed, so this is no new import."""
    try:
        import pynvml
    except Exception as error:
        return Unknown(f"pynvml could not be imported: {error}")
    return pynvml
