"""Errors of a tensor in words: how many, how large, how they are spread, what would have passed."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BARS = 24


def lines(
    off: Sequence[float],
    size: Sequence[float],
    wrong: int,
    worst: float,
    allowed: float,
    unit: float,
) -> list[str]:
    """The lines below a message. `off` are absolute errors, `size` the magnitudes of the truth.

    `worst` is the error of the element that is told, `allowed` what it might have been; `unit` is
    the relative distance of two numbers of the dtype.
    """
    finite = [(error, true) for error, true in zip(off, size, strict=True) if math.isfinite(error)]
    told = [f"    {wrong} of {len(off)} elements are off by more than is allowed"]
    if not finite:
        return told
    errors = [error for error, _ in finite]
    rms = math.sqrt(sum(error * error for error in errors) / len(errors))
    norm = math.sqrt(sum(true * true for _, true in finite) / len(finite))
    told.append(
        f"    error: worst {max(errors):.3g}, rms {rms:.3g}; of the truth's rms "
        f"{_share(rms, norm)}; there {worst:.3g}, allowed {allowed:.3g}"
    )
    told.append("    in units of the last place (of the truth, or its rms where that is larger):")
    told += histogram([error / (max(true, norm) * unit or math.inf) for error, true in finite])
    relative = max((error / true for error, true in finite if true), default=0.0)
    told.append(
        f"    would have passed: rtol=0, atol={_up(max(errors))}"
        + (f"; or rtol={_up(relative)}, atol=0" if all(t for e, t in finite if e) else "")
    )
    return told


def histogram(values: Sequence[float]) -> list[str]:
    """One line for each power of ten that has values, longest bar 24 characters."""
    bins: dict[int, int] = {}
    for value in values:
        place = -1 if value < 1 else min(18, int(math.log10(value)))
        bins[place] = bins.get(place, 0) + 1
    most = max(bins.values(), default=1)
    told = []
    for place in range(min(bins, default=0), max(bins, default=-1) + 1):
        count = bins.get(place, 0)
        label = "below 1" if place < 0 else f"1e{place} to 1e{place + 1}"
        bar = "#" * math.ceil(_BARS * count / most)
        told.append(f"      {label:>14} {count:>9} {bar}".rstrip())
    return told


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.2%}" if whole else "0"


def _up(value: float) -> str:
    """Two digits, rounded up: what is printed does pass."""
    if not value:
        return "0"
    step: float = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step) * step:.2g}"
