"""What `reefwatch dist` tried, as text: phases, bandwidth, who stands out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.report import Report
from reefwatch.show import bandwidth

_STATES = ("right", "wrong", "unsupported", "error", "hang", "lost")
_PHASES = 14


def render(report: Report) -> str:
    """The table of phases by state, over all ranks; each line ends with a line end."""
    tried = _first(report, "dist.tried")
    if not tried:
        return ""
    lines = [
        f"{tried['backend']}, {tried['world']} ranks, {tried['level']}: {tried['answered']} of "
        f"{tried['steps']} steps (seed {tried['seed']})",
        "",
        f"{'phase':<{_PHASES}}" + "".join(f"{state:>13}" for state in _STATES),
    ]
    for phase, count in phases(report).items():
        lines.append(
            f"{phase:<{_PHASES}}" + "".join(f"{count.get(s, 0) or '':>13}" for s in _STATES)
        )
    return "\n".join(lines) + "\n" + bandwidth.table(report)


def phases(report: Report) -> dict[str, dict[str, int]]:
    """Steps by phase and state: of each step the worst state over the ranks."""
    worst: dict[tuple[str, str], str] = {}
    for record in report.records:
        for event in record.events:
            if event.kind == "dist.step":
                key = str(event.data["phase"]), str(event.data["name"])
                state = str(event.data["state"])
                if key not in worst or _STATES.index(state) > _STATES.index(worst[key]):
                    worst[key] = state
    count: dict[str, dict[str, int]] = {}
    for (phase, _), state in worst.items():
        row = count.setdefault(phase, {})
        row[state] = row.get(state, 0) + 1
    return count


def outliers(report: Report) -> str:
    """The list of hosts and ranks that stand out, as JSON."""
    return (
        json.dumps(
            {"schema": 1, "command": "dist", "outliers": report.facts.get("outliers", [])}, indent=1
        )
        + "\n"
    )


def _first(report: Report, name: str) -> Mapping[str, Any]:
    for record in report.records:
        fact = record.fact(name)
        if isinstance(fact, Evidence) and isinstance(fact.value, Mapping):
            return fact.value
    return {}
