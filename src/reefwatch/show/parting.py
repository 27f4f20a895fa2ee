"""What the page shows of a run beside its reference: map by module, histogram, worst rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.core.record import Record, latest
from reefwatch.show import words
from reefwatch.show.divergence import LEAST, MOST, PHASES
from reefwatch.show.limits import Limits

WORST = 12
Row = Mapping[str, Any]


def parting(record: Record | None, limits: Limits) -> dict[str, Any] | None:
    """Rows, bars and a list for the template; None when nothing was compared."""
    events = () if record is None else record.events
    told = [event.data for event in latest(e for e in events if e.kind == "reference.row")]
    rows = [row for row in told if _number(row.get("value")) is not None]
    rows = [row for row in rows if isinstance(row.get("step"), int)]
    if not rows:
        return None
    steps = sorted({row["step"] for row in rows})
    modules: dict[str, dict[tuple[str, int], float]] = {}
    for row in rows:
        if row.get("phase") in PHASES:
            cells = modules.setdefault(words.line(row.get("module") or row.get("op"), 120), {})
            key = (str(row["phase"]), row["step"])
            cells[key] = max(cells.get(key, 0.0), _off(row))
    most = max(4, limits.rows)
    chosen = set(sorted(modules, key=lambda name: -max(modules[name].values()))[:most])
    shown = [name for name in modules if name in chosen]
    return {
        "steps": steps,
        "phases": PHASES,
        "modules": [_module(name, modules[name], steps) for name in shown],
        "more": len(modules) - len(shown),
        "histogram": _histogram(rows),
        "worst": [_worst(row) for row in sorted(rows, key=_off)[::-1][:WORST] if _off(row) > 0],
        "rows": len(rows),
    }


def _module(name: str, cells: Mapping[tuple[str, int], float], steps: Sequence[int]) -> Any:
    return {
        "name": name,
        "cells": [[_cell(cells.get((phase, step)), step) for step in steps] for phase in PHASES],
        "largest": f"{max(cells.values()):.2g}",
    }


def _cell(off: float | None, step: int) -> dict[str, str]:
    if off is None:
        return {"shade": "", "text": f"step {step}: not compared"}
    return {"shade": f"{_place(off):.2f}", "text": f"step {step}: {off:.2g}"}


def _place(off: float) -> float:
    """0 for the least distance that is told apart, 1 for the largest."""
    if off <= 0:
        return 0.0
    return min(1.0, max(0.08, (math.log10(off) - LEAST) / (MOST - LEAST)))


def _histogram(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows by power of ten of their distance."""
    count: Counter[int] = Counter()
    for row in rows:
        off = _off(row)
        at = -99 if off <= 0 else max(int(LEAST), min(int(MOST), math.floor(math.log10(off))))
        count[at] += 1
    largest = max(count.values())
    return [
        {
            "name": "equal" if at == -99 else f"1e{at}",
            "count": count[at],
            "percent": f"{100 * count[at] / largest:.1f}",
        }
        for at in sorted(count)
    ]


def _worst(row: Row) -> dict[str, str]:
    index: Any = row.get("index")
    pair: Any = row.get("pair") or ()
    where = "" if index is None else f"[{', '.join(map(str, index))}]"
    if len(pair) == 2 and where:
        where += f" {words.amount(pair[1])}, reference {words.amount(pair[0])}"
    return {
        "module": words.line(row.get("module") or "", 120),
        "op": words.line(row.get("op") or "", 80),
        "phase": words.line(row.get("phase") or "", 20),
        "step": str(row["step"]),
        "value": f"{row['value']:.2g}",
        "norm": f"{_number(row.get('norm')) or 0.0:.2g}",
        "slice": f"{_number(row.get('slice')) or 0.0:.2g}"
        + (f" (slice {row['at']})" if row.get("at") is not None else ""),
        "element": where,
    }


def _off(row: Row) -> float:
    return max(_number(row.get(part)) or 0.0 for part in ("value", "slice", "norm"))


def _number(value: Any) -> float | None:
    known = words.finite(value)
    return known if known is not None and abs(known) < 1e200 else None
