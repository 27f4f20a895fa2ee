"""The table of `reefwatch precision`: what was had, what is possible, and where the rest lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.record import Case
from reefwatch.core.report import Report
from reefwatch.show import view, words

TITLES = {"fp32": "in fp32", "asked": "as asked", "best": "best possible"}
NAMED = 8


def render(report: Report) -> str:
    """The tables as text, without colour."""
    case = Case(view.first(report))
    lines = [*_variants(case), *_time(case), *_recoverable(case, view.cwd(report))]
    lines += [*_peak(case, view.cwd(report)), *_alone(case, view.cwd(report))]
    return "\n".join(lines)


def _variants(case: Case) -> Iterator[str]:
    told = case.known("precision.variants")
    if not told:
        return
    variants: Mapping[str, Any] = told["variants"]
    spread = "quarter to three quarters"
    yield f"{'':<14} {'step (median)':>15} {spread:>27} {'saved':>12} {'peak':>12}"
    for name, title in TITLES.items():
        if name not in variants:
            if name in told["refused"]:
                yield f"{title:<14} not measured: {told['refused'][name]}"
            continue
        one = variants[name]
        if "median" in one:
            time = f"{one['median'] * 1e3:.2f} ms"
            spread = f"{one['low'] * 1e3:.2f} to {one['high'] * 1e3:.2f} ms ({one['steps']})"
        else:
            time, spread = "not timed", ""
        saved = words.quantity(sum(one["saved"].values()), "bytes")
        peak = words.quantity(total_peak(one), "bytes")
        yield f"{title:<14} {time:>15} {spread:>27} {saved:>12} {peak:>12}"
    yield ""
    yield from _gains(variants)


def total_peak(variant: Mapping[str, Any]) -> int:
    """Peak of a variant in bytes: as the allocator told it, else by count with what is held."""
    if "allocated" in variant:
        return int(variant["allocated"])
    held = sum(sum(part.values()) for part in variant["state"].values())
    return int(held + variant["peak"]["bytes"])


def _gains(variants: Mapping[str, Any]) -> Iterator[str]:
    plain = variants.get("fp32")
    if plain is None:
        return
    had, could = variants.get("asked"), variants.get("best")
    if had and "median" in plain and "median" in had:
        line = f"speed-up had {plain['median'] / had['median']:.2f}"
        if could and "median" in could:
            line += f", with all of it in 16 bits {plain['median'] / could['median']:.2f}"
        yield line
    if had:
        saved = [sum(one["saved"].values()) for one in (plain, had, could) if one]
        if saved[0]:
            line = f"saved for the backward: {_less(saved[1], saved[0])}"
            if could:
                line += f", with all of it in 16 bits {_less(saved[2], saved[0])}"
            yield line
    yield ""


def _less(size: int, of: int) -> str:
    return f"{abs(1 - size / of):.0%} {'less' if size <= of else 'more'} than in fp32"


def _time(case: Case) -> Iterator[str]:
    told = case.known("precision.time")
    if not told:
        return
    total = told["seconds"] or 1.0
    casts = told["by_kind"].get("cast", 0.0)
    on = "kernels on the GPU" if told["device"] == "gpu" else "ops on the CPU"
    yield f"casts: {casts * 1e3:.2f} ms of {total * 1e3:.2f} ms of {on}, {casts / total:.1%}"
    by = sorted(told["by_dtype"].items(), key=lambda item: -item[1])
    parts = ", ".join(f"{dtype} {seconds / total:.0%}" for dtype, seconds in by[:5])
    yield f"time by dtype: {parts}"
    yield ""


def _recoverable(case: Case, cwd: str) -> Iterator[str]:
    rows = case.known("precision.recoverable") or recoverable(case)
    if not rows:
        return
    yield "recoverable: fp32 bytes kept for the backward that 16 bits would halve, by root cause"
    for row in rows[:NAMED]:
        file = words.short_path(row["file"], cwd)
        where = f"{file}:{row['line']}" if file else row["op"]
        called = f" (called at {words.short_path(row['caller'], cwd)})" if row["caller"] else ""
        size = words.quantity(row["bytes"] // 2, "bytes")
        origin = f": {words.line(row['origin'], 60)}" if row["origin"] else ""
        grade = "" if row.get("grade", "measured") == "measured" else f" [{row['grade']}]"
        yield f"  {size:>10}  {row['cause'] or 'unexplained'}{origin}{grade}  {where}{called}"
    yield ""


def recoverable(case: Case) -> list[Mapping[str, Any]]:
    """Rows of `precision.saved_by` in fp32 that are not needed for accuracy, largest first.

    Statistics that a kernel gives beside its result, and what a loss keeps, stay where they are.
    """
    rows = [event.data for event in case.rows("precision.saved_by")]
    kept = [
        row
        for row in rows
        if row["dtype"] in ("f32", "f64")
        and row["bytes"]
        and row["cause"] not in ("kernel returns f32", "made in f32")
        and not any(word in row["op"] for word in ("loss", "log_softmax"))
        and not any("loss" in word or "log_softmax" in word for word in row.get("feeds", ()))
    ]
    places: dict[tuple[str, int, str], dict[str, Any]] = {}
    for row in kept:
        key = (row["file"], row["line"], row["cause"] or "")
        if key in places:
            places[key]["bytes"] += row["bytes"]
        else:
            places[key] = dict(row)
    return sorted(places.values(), key=lambda row: -row["bytes"])


def _peak(case: Case, cwd: str) -> Iterator[str]:
    told = case.known("precision.variants")
    asked = told["variants"].get("asked") if told else None
    if not asked or not asked["peak"]["bytes"]:
        return
    held = {name: sum(part.values()) for name, part in asked["state"].items()}
    parts = ", ".join(f"{name} {words.quantity(size, 'bytes')}" for name, size in held.items())
    size = words.quantity(asked["peak"]["bytes"], "bytes")
    yield f"peak, as asked: {size} made by the step (in {asked['peak']['phase']}), beside {parts}"
    for row in asked["peak"]["at"][:NAMED]:
        file = words.short_path(row["file"], cwd)
        where = f"{file}:{row['line']}" if file else "no Python line"
        size = words.quantity(row["bytes"], "bytes")
        yield f"  {size:>10}  {row['module'] or 'outside of modules'}  {where}"
    yield ""


def _alone(case: Case, cwd: str) -> Iterator[str]:
    """Timing signatures: each of the costliest ops alone, by dtype."""
    rows = [event.data for event in case.rows("precision.signature")]
    if not rows:
        return
    yield "costliest ops alone: time in fp32, by the time in bf16 and in fp16"
    for row in rows:
        times = row["seconds"]
        full = f"{times['f32'] * 1e3:.3f} ms" if "f32" in times else "not run"
        ratios = " ".join(_ratio(row, dtype) for dtype in ("bf16", "f16"))
        file = words.short_path(row["file"], cwd)
        where = f"{file}:{row['line']}" if file else row["module"]
        shapes = " x ".join("[" + ",".join(map(str, one)) + "]" for one in row["shapes"][:2])
        own = (row["dtype"],) if row["dtype"] in row["ratio"] else tuple(row["ratio"])
        said = "  as short as a launch: tells nothing" if row["small"] else ""
        if not said and any(_below(row, dtype) for dtype in own):
            said = "  below 1: emulated, or a naive kernel"
        op = row["op"].removeprefix("aten.").removesuffix(".default")
        what = f"{row['calls']} x {op} {shapes} in {row['dtype']}"
        yield f"  {full:>12}  {ratios}  {what}  {where}{said}"
    yield ""


def _below(row: Mapping[str, Any], dtype: str) -> bool:
    """True when the ratio is below 1 by more than the machine's own noise."""
    noise = max(row["spread"].get(dtype, 0.0), row["spread"].get("f32", 0.0))
    return bool(row["ratio"][dtype] * 1.1 * (1 + 3 * noise) < 1)


def _ratio(row: Mapping[str, Any], dtype: str) -> str:
    if dtype in row["ratio"]:
        return f"{dtype} {row['ratio'][dtype]:6.2f}"
    return f"{dtype} {'no' if dtype in row['errors'] else '?':>6}"
