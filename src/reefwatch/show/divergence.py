"""Where two runs part, by module: a map of bars, forward and backward, and both loss curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record, latest

BARS = " ▁▂▃▄▅▆▇█"
LEAST, MOST = -8.0, 0.0
"""Powers of ten of the relative distances at the empty and at the full bar."""
PHASES = ("forward", "backward", "gradient", "parameter")
MODULES = 40


def text(record: Record) -> str:
    """The map and the curves; empty when there is nothing to show."""
    events = [e for e in record.events if e.kind == "reference.row"]
    rows = [event.data for event in latest(events) if event.data.get("value") is not None]
    parts = [part for part in (_map(rows), _curves(record)) if part]
    return "\n\n".join(parts)


def _map(rows: Sequence[Mapping[str, Any]]) -> str:
    steps = sorted({row["step"] for row in rows})
    modules: dict[str, dict[tuple[str, int], float]] = {}
    for row in rows:
        if row["phase"] in PHASES:
            off = max(row["value"], row["slice"], row["norm"])
            cell = modules.setdefault(row["module"] or row["op"], {})
            key = (row["phase"], row["step"])
            cell[key] = max(cell.get(key, 0.0), off)
    if not modules:
        return ""
    shown = sorted(modules, key=lambda name: -max(modules[name].values()))[:MODULES]
    kept = [name for name in modules if name in set(shown)]
    width = max(len(name) for name in kept)
    head = "  ".join(f"{phase:<{max(len(phase), len(steps))}}" for phase in PHASES)
    lines = [f"relative distance by module, one column per step ({', '.join(map(str, steps))})"]
    lines.append(f"{'':<{width}}  {head}  largest")
    for name in kept:
        cells = []
        for phase in PHASES:
            bars = "".join(_bar(modules[name].get((phase, step))) for step in steps)
            cells.append(f"{bars:<{max(len(phase), len(steps))}}")
        lines.append(f"{name:<{width}}  {'  '.join(cells)}  {max(modules[name].values()):.2g}")
    if len(modules) > len(kept):
        lines.append(f"and {len(modules) - len(kept)} modules that are nearer")
    return "\n".join(lines)


def _bar(off: float | None) -> str:
    if off is None:
        return " "
    if off <= 0:
        return "·"
    place = (math.log10(off) - LEAST) / (MOST - LEAST)
    return BARS[max(1, min(len(BARS) - 1, round(place * (len(BARS) - 1))))]


def _curves(record: Record) -> str:
    fact = record.fact("numerics.curve")
    if not isinstance(fact, Evidence) or not isinstance(fact.value, Mapping):
        return ""
    told: Mapping[str, Any] = fact.value
    pairs = list(zip(told["there"], told["here"], strict=False))
    if not pairs:
        return ""
    lines = ["loss            reference          this run       difference        band"]
    for step in sorted({0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, len(pairs) - 1}):
        if step < len(pairs):
            there, here = pairs[step]
            band = f"{told['band'][step]:.3g}" if step < len(told["band"]) else "-"
            lines.append(f"{step:>6} {there:>18.9g} {here:>18.9g} {here - there:>16.3g} {band:>11}")
    return "\n".join(lines)
