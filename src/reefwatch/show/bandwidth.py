"""algbw and busbw of `reefwatch dist --bench`: a table as rccl-tests prints it, and a plot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reefwatch.core.record import Record
from reefwatch.core.report import Report
from reefwatch.show.charts import Chart, Line, Point, draw, drawable
from reefwatch.show.words import line, size

Row = Mapping[str, Any]


def rows(record: Record) -> list[Row]:
    """The rows that hold a bandwidth that can be shown."""
    return [
        event.data
        for event in record.events
        if event.kind == "dist.step"
        and event.data.get("phase") == "bandwidth"
        and all(drawable(event.data.get(key)) for key in ("bytes", "seconds", "algbw", "busbw"))
    ]


def table(report: Report) -> str:
    """The table, with a blank line before it; "" when nothing was measured."""
    some = rows(report.records[0]) if report.records else []
    if not some:
        return ""
    lines = ["", f"{'':<16}{'size':>10}{'time us':>12}{'algbw GB/s':>12}{'busbw GB/s':>12}"]
    for row in some:
        name = str(row["name"]) if row["form"] == "link" else str(row["form"])
        lines.append(
            f"{line(name, 16):<16}{size(row['bytes']):>10}{row['seconds'] * 1e6:>12.1f}"
            f"{row['algbw']:>12.3f}{row['busbw']:>12.3f}"
        )
    return "\n".join(lines) + "\n"


def charts(record: Record) -> list[Chart]:
    """One plot for each collective: busbw over the size, in powers of two."""
    forms: dict[str, list[Row]] = {}
    for row in rows(record):
        if row["form"] != "link":
            forms.setdefault(str(row["form"]), []).append(row)
    return [_plot(form, some) for form, some in forms.items() if len(some) > 1]


def _plot(form: str, some: list[Row]) -> Chart:
    some = sorted(some, key=lambda row: float(row["bytes"]))
    xs = [math.log2(row["bytes"]) for row in some]

    def over(key: str, kind: str) -> Line:
        values = [float(row[key]) for row in some]
        points = tuple(Point(x, v, v, v) for x, v in zip(xs, values, strict=True))
        return Line(key, points, kind)

    best = max(some, key=lambda row: float(row["busbw"]))
    highest = max(max(float(row["busbw"]), float(row["algbw"])) for row in some)
    return draw(
        f"Bandwidth of {line(form, 40)}",
        f"busbw up to {best['busbw']:.3g} GB/s, at {size(best['bytes'])}",
        [over("busbw", "a"), over("algbw", "b")],
        lambda value: f"{value:.3g} GB/s",
        x_name="power of two, bytes",
        span=(0.0, highest),
        legend=(("a", "busbw"), ("b", "algbw")),
    )
