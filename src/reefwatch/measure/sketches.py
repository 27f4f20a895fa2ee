"""A tensor in a few hundred numbers, and how far two of them are apart. Plain Python, no arrays.

A sketch is `{"dtype", "shape", "norm", "bad", "at", "axis", "slices"}`: the L2 norm, how many
elements are not finite, the values at fixed positions, and the L2 norm of each slice of one axis.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

POSITIONS = 48
SLICES = 64
"""Slices of an axis that are told one by one; of a longer axis, groups of neighbours."""

READ = 1 << 15
"""Elements of a tensor that are read for its slices."""
SHORT = 8
"""Axes up to this length are read whole, as long as others can be read in part."""


def packed(sketch: Mapping[str, Any]) -> dict[str, Any]:
    """The sketch with its lists of numbers as base64 of their bytes (float32, f64 for f64)."""
    kind = "d" if sketch.get("dtype") == "f64" else "f"
    texts = {
        part: base64.b64encode(struct.pack(f"<{len(values)}{kind}", *values)).decode()
        for part in ("at", "slices")
        if isinstance(values := sketch.get(part), list)
    }
    return {**sketch, **texts}


def unpacked(sketch: Mapping[str, Any]) -> dict[str, Any]:
    """The sketch as `packed` had it. Raises ValueError for what is none."""
    size, kind = (8, "d") if sketch.get("dtype") == "f64" else (4, "f")
    made = dict(sketch)
    for part in ("at", "slices"):
        text = made.get(part)
        if isinstance(text, str):
            raw = base64.b64decode(text, validate=True)
            if len(raw) % size:
                raise ValueError(f"{part}: {len(raw)} bytes")
            made[part] = list(struct.unpack(f"<{len(raw) // size}{kind}", raw))
    return made


def positions(count: int) -> list[int]:
    """The flat positions of `count` elements whose values are told: both ends and drawn ones.

    The draw is a Weyl sequence, so that no stride of a tile or a row is hit over and over.
    Source: Niederreiter, Random Number Generation and Quasi-Monte Carlo Methods, 1992, section 3.1.
    """
    if count <= POSITIONS:
        return list(range(count))
    golden = 0.6180339887498949
    drawn = {int(((n + 1) * golden % 1.0) * count) for n in range(POSITIONS - 2)}
    return sorted({0, count - 1, *drawn})


def axis_of(shape: Sequence[int]) -> int | None:
    """The axis whose slices are told: channels (1) of an image, else the last."""
    if len(shape) < 2 or math.prod(shape) == 0:
        return None
    return 1 if len(shape) in (4, 5) else len(shape) - 1


def steps_of(shape: Sequence[int], axis: int | None) -> list[int]:
    """The step on each axis, so that at most `READ` elements are read for the slices of `axis`.

    The longest axes are thinned out first, evenly, and short ones (a kernel's taps) not at all
    when that is enough. It depends on the shape alone: two devices read the same elements.
    """
    steps = [1] * len(shape)
    others = [d for d in range(len(shape)) if d != axis]

    def left(d: int) -> int:
        return -(-shape[d] // steps[d])

    def read() -> int:
        return math.prod(left(d) for d in range(len(shape)))

    for axes in ([d for d in others if shape[d] > SHORT], others):
        for number, d in enumerate(sorted(axes, key=lambda d: -shape[d])):
            share = (read() / READ) ** (1 / (len(axes) - number))
            steps[d] = max(steps[d], min(shape[d], math.ceil(share)))
    while read() > READ and any(left(d) > 1 for d in others):  # lengths do not divide evenly
        steps[max(others, key=left)] += 1
    return steps


def distance(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """How far `two` is from `one`, relative to `one`: by value, by norm, and by slice.

    `value` is the relative L2 distance of the values told, `norm` that of the norms, `slice` the
    largest of the slices (against the root mean square of all: an empty one does not count),
    `bad` whether other elements are finite.
    """
    if one["bad"] or two["bad"]:
        same = one["bad"] == two["bad"]
        return {"value": 0.0, "norm": 0.0, "slice": 0.0, "at": None, "bad": not same}
    scale = max(one["norm"], 1e-300)
    count = max(math.prod(one["shape"]), 1)
    typical = scale / math.sqrt(count)
    told = math.sqrt(sum(v * v for v in one["at"])) or typical
    apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(one["at"], two["at"], strict=True)))
    # with few values told, theirs may all be small: then the usual size of an element counts
    value = apart / max(told, typical * math.sqrt(len(one["at"]) or 1) * 0.1)
    worst, where = 0.0, None
    if one["slices"]:
        usual = math.sqrt(sum(v * v for v in one["slices"]) / len(one["slices"])) or 1e-300
        for place, (a, b) in enumerate(zip(one["slices"], two["slices"], strict=True)):
            off = abs(a - b) / max(a, 0.1 * usual)
            if off > worst:
                worst, where = off, place
    norm = abs(one["norm"] - two["norm"]) / scale if one["norm"] or two["norm"] else 0.0
    known = {"value": value, "norm": norm, "slice": worst, "at": where, "bad": False}
    return {**known, **_farthest(one, two)} if apart else known


def _farthest(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """`index` of the told element that is farthest off, and the `pair` of values there."""
    pairs = list(zip(one["at"], two["at"], strict=True))
    number = max(range(len(pairs)), key=lambda n: abs(pairs[n][0] - pairs[n][1]))
    flat, index = positions(math.prod(one["shape"]))[number], []
    for length in reversed(one["shape"]):
        index.append(flat % length)
        flat //= length
    return {"index": index[::-1], "pair": list(pairs[number])}


def same_kind(one: Mapping[str, Any], two: Mapping[str, Any]) -> str:
    """What differs in kind, so that two sketches cannot be compared; empty when they can."""
    for part in ("dtype", "shape"):
        if list(one[part]) != list(two[part]):
            return f"{part} {_words(one[part])} became {_words(two[part])}"
    return ""


def _words(value: Any) -> str:
    return str(list(value)) if not isinstance(value, str) else value


WIDTH = ("f8e5m2", "f8e4m3", "bf16", "f16", "f32", "f64")
"""Dtypes from the coarsest on."""


def coarser(one: str, two: str) -> str:
    """The dtype with fewer bits."""
    return min((one, two), key=lambda name: WIDTH.index(name) if name in WIDTH else len(WIDTH))


def compared(
    kept: Mapping[str, Any], sketch: Mapping[str, Any] | None, same: bool = True
) -> dict[str, Any]:
    """A reference's row against the sketch of the same row elsewhere: problem, distances, noise.

    Between machines (`same` false) another dtype is no problem: the coarser of both counts.
    """
    theirs = kept["sketch"]
    if theirs is None or sketch is None:
        return {"problem": "" if theirs is sketch else "no gradient"}
    problem = same_kind(theirs, sketch if same else {**sketch, "dtype": theirs["dtype"]})
    told: dict[str, Any] = {"problem": problem, "dtype": sketch["dtype"]}
    if not same:
        told["dtype"] = coarser(theirs["dtype"], sketch["dtype"])
    if not problem:
        told.update(distance(theirs, sketch))
    told["noise"] = kept.get("noise")
    told["size"] = theirs["norm"] / math.sqrt(max(math.prod(theirs["shape"]), 1))
    return told
