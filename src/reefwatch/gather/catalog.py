"""All instruments of a run, in the order in which they are armed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from reefwatch.gather.instrument import Instrument, Tools

CATALOG = (
    ("compiled.guard", "CompileGuard"),
    ("precision.audit", "PrecisionAudit"),
    ("precision.attention", "Attention"),
    ("precision.gates", "Gates"),
    ("precision.generated", "Generated"),
    ("loop.gradients", "Gradients"),
    ("loop.parameters", "Parameters"),
    ("loop.finite", "Finite"),
    ("loop.phases", "Phases"),
    ("loop.scaler", "Scaler"),
    ("loop.data", "Data"),
    ("loop.clip", "Clip"),
    ("perf.timing", "Timing"),
    ("perf.telemetry", "Telemetry"),
    ("perf.memory", "Memory"),
    ("perf.loader", "Loader"),
    ("dist.replicas", "Replicas"),
    ("dist.watchdog", "Watchdog"),
)
"""Module below `reefwatch.gather`, and class."""
ASKED = {
    "reference_writer": ("numerics.reference", "Recorder"),
    "against": ("numerics.follow", "Follower"),
    "truth": ("numerics.truth", "Truth"),
    "kernels": ("kernels.launches", "Launches"),
    "agreed": ("dist.agreed", "Agreed"),
}
"""Those that an option asks for, by its name; last, so that they see what the others left alone."""


class Absent(Instrument):
    """Stands for an instrument that could not be made; the watch records it as errored."""

    def __init__(self, name: str, contract: str, why: Exception) -> None:
        self.name = name
        self.contract = contract
        self._why = why

    def arm(self, tools: Tools) -> None:
        raise self._why


def instruments(options: dict[str, Any]) -> list[Instrument]:
    """One of each, in order; `options["without"]` names contracts or instruments to leave out."""
    left_out = set(options.get("without", ()))
    made: list[Instrument] = []
    asked = [entry for option, entry in ASKED.items() if options.get(option)]
    for module, kind in (*CATALOG, *asked):
        contract = module.partition(".")[0]
        if contract in left_out or module in left_out:
            continue
        try:
            made.append(getattr(import_module(f"reefwatch.gather.{module}"), kind)())
        except Exception as why:
            made.append(Absent(module, contract, why))
    return made
