"""The collective matrix: form, layout, op, dtype, group, each with several sizes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from reefwatch.experiments.dist import codes, forms
from reefwatch.experiments.dist.compare import Wrong
from reefwatch.experiments.dist.steps import Bench, Row, Step

SIZES = {"quick": (1, 257), "full": (0, 1, 1003, 65536)}
LATER = (
    "broadcast",
    "all_gather_into_tensor",
    "all_to_all_single",
    "all_reduce",
    "reduce_scatter_tensor",
)
"""Forms that are also run without waiting."""
QUICK = ("float32", "bfloat16", "float16", "int64", "uint8", "bool", "complex64")
"""Dtypes of the quick level; the full one has all."""
QUICK_OPS = ("SUM", "AVG", "MAX", "PRODUCT")


def groups(world: int) -> list[tuple[int, ...]]:
    """Groups besides the world: halves, the first in reversed order."""
    if world < 4:
        return []
    return [tuple(range(world - 1, 0, -2)), tuple(range(world - 2, -1, -2))]


def steps(level: str, world: int, options: dict[str, Any]) -> Iterator[Step]:
    """The matrix in order. `options` may name `dtypes`, `collectives`, `sizes`."""
    dtypes = options.get("dtypes") or (codes.DTYPES if level == "full" else QUICK)
    wanted = options.get("collectives") or tuple(forms.FORMS)
    sizes = tuple(options.get("sizes") or SIZES[level])
    for form in forms.FORMS:
        if form not in wanted:
            continue
        for about in _variants(form, level):
            kinds = ("float32",) if form in forms.ONCE else dtypes
            for dtype in kinds:
                yield _step("matrix", {"form": form, **about, "dtype": dtype}, sizes, ())
    for group in groups(world):
        for form in forms.FORMS:
            if form in wanted:
                kinds = (
                    ("float32",)
                    if form in forms.ONCE
                    else ("float32", "int64")
                    if level == "quick"
                    else dtypes
                )
                for dtype in kinds:
                    yield _step("subgroups", {"form": form, "dtype": dtype}, sizes[-2:], group)


def _variants(form: str, level: str) -> Iterator[dict[str, Any]]:
    ops = codes.OPS if level == "full" else QUICK_OPS
    if form in forms.ONCE:
        yield {}
        return
    yield from ({"op": op} for op in ops) if form in forms.REDUCING else ({},)
    if form != "functional":
        yield {"layout": "strided"}
    if form in LATER:
        yield {"later": True}


def _step(
    phase: str, about: dict[str, Any], sizes: tuple[int, ...], group: tuple[int, ...]
) -> Step:
    words = [about["form"], about.get("op", ""), about["dtype"], about.get("layout", "")]
    words += ["async"] if about.get("later") else []
    words += ["ranks " + ",".join(map(str, group))] if group else []
    name = " ".join(word for word in words if word)
    key = zlib.crc32(f"{phase} {name}".encode()) % 100003

    def run(bench: Bench) -> Row:
        return case(bench, about, sizes, group, key)

    return Step(phase, name, run, {**about, "sizes": list(sizes)}, group)


def case(
    bench: Bench, about: dict[str, Any], sizes: tuple[int, ...], group: tuple[int, ...], key: int
) -> Row:
    """Run one case with all its sizes; the first that is not right ends it."""
    dtype = codes.dtype_of(about["dtype"])
    if dtype is None:
        return {"state": "unsupported", "detail": "this torch has no such dtype"}
    if about.get("layout") == "strided":  # one element is contiguous whatever its stride
        sizes = tuple(n for n in sizes if n > 1) or (257,)
    row: Row = {"state": "right", "rule": "same bits"}
    for nth, n in enumerate(sizes):  # to the end also when one is wrong: the ranks stay in step
        context = forms.Context(
            bench.groups[group],
            bench.device,
            dtype,
            n,
            key + nth + bench.seed,
            about.get("op", ""),
            about.get("layout") == "strided",
            bool(about.get("later")),
        )
        told = list(forms.FORMS[about["form"]](context))
        if any(expected.bound is not None for expected in told):
            row["rule"] = "rounding bound of 1/W"
        wrong = next((w for expected in told if (w := expected.wrong()) is not None), None)
        outside = context.arena.damage()
        if row["state"] == "right" and (wrong is not None or outside):
            row.update(state="wrong", size=n, outside=outside)
            row.update(_told(wrong) if wrong is not None else {"detail": f"it wrote {outside}"})
    return row


def _told(wrong: Wrong) -> Row:
    return {
        "detail": wrong.words(),
        "wrong": wrong.count,
        "of": wrong.of,
        "run": wrong.run,
        "why": wrong.why,
    }
