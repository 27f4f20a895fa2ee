"""Charts of a run as inline SVG: step time, loss, memory, temperature, power, clock.

The SVG holds lines only and is stretched to its frame (`preserveAspectRatio="none"`); labels are
HTML beside it, so that they stay readable on a phone.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reefwatch.core.record import Case, Record
from reefwatch.show import words
from reefwatch.show.view import mapping

POINTS = 480
"""Points of a line. More values are put together, their lowest and highest drawn as a band."""
PIECES = 250
"""Pieces of the step axis that can be marked as examined."""
WIDTH, HEIGHT = 1000, 240


@dataclass(frozen=True)
class Point:
    """Some neighbouring values as one."""

    x: float
    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class Line:
    """One line of a chart. `kind` is a, b, or limit (dashed, not in the summary)."""

    name: str
    points: tuple[Point, ...]
    kind: str = "a"


@dataclass(frozen=True)
class Label:
    """A label of an axis, `at` percent from its begin."""

    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """One figure, ready for the template. `svg` and `data` hold numbers and fixed words only."""

    title: str
    summary: str
    svg: str
    y: tuple[Label, ...]
    x: tuple[Label, ...]
    x_name: str
    legend: tuple[tuple[str, str], ...]
    data: str
    remark: str = ""


def thin(
    values: Sequence[float | None], xs: Sequence[float], most: int = POINTS
) -> tuple[Point, ...]:
    """At most `most` points; what is not finite is left out."""
    step = max(1, math.ceil(len(values) / most))
    points = []
    for begin in range(0, len(values), step):
        some = [v for v in values[begin : begin + step] if v is not None]
        if some:
            points.append(Point(xs[begin], min(some), statistics.fmean(some), max(some)))
    return tuple(points)


def drawable(value: Any) -> float | None:
    """The value if an axis can hold it."""
    known = words.finite(value)
    return known if known is not None and abs(known) < 1e200 else None


def charts(record: Record, most: int = POINTS) -> list[Chart]:
    """Every chart for which the record has values."""
    made = [_step_time(record, most), _loss(record, most), _followed(record, most)]
    made += _samples(record, most)
    return [chart for chart in made if chart is not None]


def series(record: Record, kind: str, key: str) -> dict[int, Any]:
    """Step to value, of events that hold `first`, a list of values, and perhaps `every`."""
    found: dict[int, Any] = {}
    for event in Case(record).rows(kind):
        found.update(_spaced(event.data, key, "every"))
    return found


def _spaced(row: Mapping[str, Any], key: str, every: str) -> dict[int, Any]:
    """Step to value of one event, whose values stand `every` steps apart."""
    first, values = drawable(row.get("first")), row.get(key)
    if first is None or not isinstance(values, (list, tuple)):
        return {}
    apart = max(1, int(drawable(row.get(every)) or 1))
    return {int(first) + n * apart: value for n, value in enumerate(values)}


def _step_time(record: Record, most: int) -> Chart | None:
    times = {
        step: time
        for step, value in sorted(series(record, "perf.steps", "seconds").items())
        if (time := drawable(value)) is not None
    }
    if not times:
        return None
    steps, values = list(times), list(times.values())
    marked = series(record, "perf.steps", "examined")
    examined = [step for step in steps if marked.get(step)]
    plain = sorted(time for step, time in times.items() if not marked.get(step)) or sorted(values)
    median, p95 = plain[len(plain) // 2], plain[int(0.95 * (len(plain) - 1))]
    ceiling = highest = max(values)
    most_of_it = sorted(values)[int(0.95 * (len(values) - 1))]
    if ceiling > 3 * most_of_it > 0:  # one slow first step must not flatten all others
        ceiling = 1.6 * most_of_it
    above = sum(value > ceiling for value in values)
    remark = ""
    if above:
        longest = words.seconds(highest)
        remark = f"{words.several(above, 'step')} above the axis, the longest {longest}"
    return draw(
        "Step time",
        _told_time(record) or f"median {words.seconds(median)}, p95 {words.seconds(p95)}",
        [Line("step time", thin(values, steps, most))],
        words.seconds,
        x_name="step",
        span=(0.0, ceiling),
        bands=bands(examined, steps[0], steps[-1]),
        legend=_examined(len(examined), len(steps), steps[-1] - steps[0] + 1),
        remark=remark,
    )


def _told_time(record: Record) -> str:
    """The step time as the instrument tells it: without warm-up and examined steps."""
    told = mapping(record, "perf.steps")
    median, p95 = words.finite(told.get("median")), words.finite(told.get("p95"))
    if median is None or p95 is None:
        return ""
    return f"median {words.seconds(median)}, p95 {words.seconds(p95)}"


def _examined(seen: int, entries: int, steps: int) -> tuple[tuple[str, str], ...]:
    """A late entry stands for several steps, at least one of them examined."""
    if not seen:
        return ()
    least = "at least " if steps > entries else ""
    return (("examined", f"examined: {least}{words.share(seen / steps)} of the steps"),)


def _loss(record: Record, most: int) -> Chart | None:
    """The losses of the line that calls backward most often, and of the next one."""
    found: dict[str, dict[int, Any]] = {}
    places: dict[str, str] = {}
    for event in Case(record).rows("loop.loss"):
        row = event.data
        number, file = str(row.get("series", 0)), str(row.get("file") or "").rsplit("/", 1)[-1]
        found.setdefault(number, {}).update(_spaced(row, "values", "stride"))
        places[number] = words.line(f"loss at {file}:{row.get('line')}" if file else "loss", 60)
    known = {
        n: {s: v for s, value in sorted(told.items()) if (v := drawable(value)) is not None}
        for n, told in found.items()
    }
    first, *more = sorted((n for n in known if known[n]), key=lambda n: -len(found[n])) or [""]
    if not first:
        return None
    shown = dict(zip("ab", [first, *more], strict=False))

    def line(kind: str, n: str) -> Line:
        return Line(places[n], thin([*known[n].values()], [*known[n]], most), kind)

    values = [*known[first].values()]
    lost = sum(len(found[number]) - len(known[number]) for number in shown.values())
    remark = f"{words.several(lost, 'value')} not finite, not drawn" if lost else ""
    if len(more) > 1:
        remark += f" ({len(more) - 1} more losses are not drawn)"
    return draw(
        "Loss",
        f"first {words.amount(values[0])}, last {words.amount(values[-1])}",
        [line(kind, number) for kind, number in shown.items()],
        words.amount,
        x_name="backward",
        legend=tuple((kind, places[n]) for kind, n in shown.items()) if more else (),
        remark=remark.strip(),
    )


def _followed(record: Record, most: int) -> Chart | None:
    """The loss beside that of the reference, whose band is drawn around it."""
    told = mapping(record, "numerics.curve")

    def values(name: str) -> list[float | None]:
        given = told.get(name)
        return [drawable(v) for v in given] if isinstance(given, (list, tuple)) else []

    here, there, band = values("here"), values("there"), values("band")
    if not any(v is not None for v in here) or not any(v is not None for v in there):
        return None
    count = min(len(here), len(there))
    wide = [(band[n] if n < len(band) else None) or 0.0 for n in range(count)]
    step = max(1, math.ceil(count / most))
    around = tuple(
        Point(float(n), v - wide[n], v, v + wide[n])
        for n in range(0, count, step)
        if (v := there[n]) is not None
    )
    mine = thin(here[:count], [float(n) for n in range(count)], most)
    if not around or not mine:
        return None
    apart = max(
        (abs(a - b) for a, b in zip(here, there, strict=False) if a is not None and b is not None)
    )
    return draw(
        "Loss beside the reference's",
        f"at most {words.amount(apart)} apart",
        [Line("this run", mine, "a"), Line("reference, with its band", around, "b")],
        words.amount,
        x_name="backward",
        legend=(("a", "this run"), ("b", "reference, with its band")),
    )


def _samples(record: Record, most: int) -> Iterator[Chart | None]:
    rows = [event.data for event in Case(record).rows("perf.sample")]
    rows = [row for row in rows if drawable(row.get("t")) is not None]
    times = [float(row["t"]) for row in rows]

    def line(name: str, key: str, kind: str = "a") -> Line:
        return Line(name, thin([drawable(row.get(key)) for row in rows], times, most), kind)

    def unit(name: str) -> Callable[[float], str]:
        return lambda value: f"{words.amount(value)} {name}"

    yield _sampled(
        "Memory",
        words.size,
        [line("used", "memory_used"), line("total", "memory_total", "limit")],
        base=0,
    )
    yield _sampled(
        "Temperature", unit("°C"), [line("edge", "temperature"), line("hotspot", "hotspot", "b")]
    )
    yield _sampled(
        "Power", unit("W"), [line("power", "power"), line("cap", "power_cap", "limit")], base=0
    )
    throttled = [row["throttle"] for row in rows if row.get("throttle")]
    said = f"throttle status in {len(throttled)} of {words.several(len(rows), 'sample')}"
    reasons = Counter(str(r) for some in throttled if isinstance(some, (list, tuple)) for r in some)
    if reasons:
        said += f": {words.line(', '.join(reason for reason, _ in reasons.most_common(3)), 80)}"
    yield _sampled(
        "Clock",
        lambda megahertz: f"{words.amount(megahertz / 1000)} GHz",
        [line("clock", "clock"), line("highest", "max_clock", "limit")],
        remark=said if throttled else "",
        base=0,
    )
    yield _sampled("Utilisation", unit("%"), [line("busy", "utilisation")], base=0)


def _sampled(
    title: str,
    written: Callable[[float], str],
    lines: list[Line],
    *,
    base: float | None = None,
    remark: str = "",
) -> Chart | None:
    lines = [line for line in lines if line.points]
    if not lines or lines[0].kind == "limit":
        return None
    mids = [point.mid for point in lines[0].points]
    summary = " to ".join(dict.fromkeys((written(min(mids)), written(max(mids)))))
    span = None
    if base is not None:
        span = (base, max(point.high for line in lines for point in line.points))
    legend = tuple((line.kind, line.name) for line in lines) if len(lines) > 1 else ()
    return draw(
        title, summary, lines, written, x_name="seconds", span=span, legend=legend, remark=remark
    )


@dataclass(frozen=True)
class Band:
    """A piece of the axis, in thousandths, and the share of its steps that were examined."""

    begin: float
    end: float
    share: float


def bands(examined: Sequence[int], first: int, last: int) -> list[Band]:
    """Where steps were examined, each piece with its share: sparse must not look like all."""
    per_piece = max(1, math.ceil((last - first + 1) / PIECES))
    count = Counter((step - first) // per_piece for step in examined)
    width = max(1, last - first)
    found: list[Band] = []
    for piece, seen in sorted(count.items()):
        begin = piece * per_piece
        steps = min(per_piece, last - first + 1 - begin)
        share = round(seen / steps, 2) or 0.01
        left = max(0.0, WIDTH * (begin - 0.5) / width)
        right = min(float(WIDTH), WIDTH * (begin + steps - 0.5) / width)
        if found and found[-1].share == share and left - found[-1].end < 1e-6:
            found[-1] = Band(found[-1].begin, right, share)
        else:
            found.append(Band(left, right, share))
    return found


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round values inside a span (1, 2 or 5 times a power of ten)."""
    rough = (high - low) / count
    if not rough > 1e-200:
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
    begin = math.ceil(low / step - 1e-9)
    found: list[float] = []
    while begin * step <= high + step * 1e-9 and len(found) < 12:
        found.append(begin * step)
        begin += 1
    return found


def draw(
    title: str,
    summary: str,
    lines: list[Line],
    written: Callable[[float], str],
    *,
    x_name: str,
    span: tuple[float, float] | None = None,
    bands: Sequence[Band] = (),
    legend: tuple[tuple[str, str], ...] = (),
    remark: str = "",
) -> Chart:
    """The figure of some lines over numbers."""
    low, high = span or (
        min(point.low for line in lines for point in line.points),
        max(point.high for line in lines for point in line.points),
    )
    room = (high - low) or abs(high) or 1.0
    high += 0.06 * room
    if span is None:
        low -= 0.06 * room
    first = min(line.points[0].x for line in lines)
    last = max(line.points[-1].x for line in lines)
    frame = _Frame(first, last if last > first else first + 1, low, high)
    y_ticks = _binary(low, high) if written is words.size else ticks(low, high)
    x_ticks = [x for x in ticks(first, last, 5) if float(x).is_integer() or x_name == "seconds"]
    return Chart(
        title=title,
        summary=summary,
        svg=frame.svg(lines, bands, y_ticks),
        y=tuple(Label(frame.y(tick) / HEIGHT * 100, written(tick)) for tick in y_ticks),
        x=tuple(Label(frame.x(tick) / WIDTH * 100, words.amount(tick)) for tick in x_ticks),
        x_name=x_name,
        legend=legend,
        data=frame.data(lines, x_name, written),
        remark=remark,
    )


def _binary(low: float, high: float) -> list[float]:
    """Ticks that are round in KiB, MiB, GiB."""
    power = 1024.0 ** max(0, math.floor(math.log(max(high, 1), 1024)))
    return [tick * power for tick in ticks(low / power, high / power)]


@dataclass(frozen=True)
class _Frame:
    """The window on the data that a chart shows."""

    first: float
    last: float
    low: float
    high: float

    def x(self, value: float) -> float:
        return WIDTH * (value - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return HEIGHT * (1 - min(1.0, max(0.0, part)))

    def svg(self, lines: list[Line], bands: Sequence[Band], grid: list[float]) -> str:
        drawn = []
        for band in bands:
            box = f'x="{band.begin:.1f}" width="{max(1.5, band.end - band.begin):.1f}"'
            shade = 0.28 * max(0.15, band.share)  # paler than that is not seen at all
            drawn.append(
                f'<rect class="examined" {box} height="{HEIGHT}" fill-opacity="{shade:.3f}"/>'
            )
        drawn += [f'<path class="grid" d="M0 {self.y(tick):.1f}H{WIDTH}"/>' for tick in grid]
        for line in lines:
            if any(point.low != point.high for point in line.points):
                there = [f"{self.x(p.x):.1f} {self.y(p.high):.1f}" for p in line.points]
                back = [f"{self.x(p.x):.1f} {self.y(p.low):.1f}" for p in reversed(line.points)]
                drawn.append(f'<path class="spread {line.kind}" d="M{"L".join(there + back)}Z"/>')
            path = "L".join(f"{self.x(p.x):.1f} {self.y(p.mid):.1f}" for p in line.points)
            if len(line.points) == 1:
                path += "h6"
            drawn.append(f'<path class="line {line.kind}" d="M{path}"/>')
        box = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
        return f'<svg {box} aria-hidden="true">{"".join(drawn)}</svg>'

    def data(self, lines: list[Line], x_name: str, written: Callable[[float], str]) -> str:
        """For the pointer: [x in percent, y in percent, what to say] of the first line."""
        rows = []
        for point in lines[0].points:
            said = f"{x_name} {words.amount(point.x)}: {written(point.mid)}"
            if point.low != point.high:
                said += f" ({written(point.low)} to {written(point.high)})"
            rows.append(
                [
                    round(self.x(point.x) / WIDTH * 100, 2),
                    round(self.y(point.mid) / HEIGHT * 100, 2),
                    said,
                ]
            )
        return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
