"""Tables of kernels: where the device time went, and what names tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_COLUMNS = ("library", "compute_dtype", "accumulate_dtype", "matrix_core", "naive")
_HEADS = ("library", "dtype", "accumulated", "matrix", "naive")


def names(told: Iterable[Mapping[str, str]]) -> str:
    """One line for each name."""
    rows = [_HEADS, *(tuple(row[column] for column in _COLUMNS) for row in told)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(_HEADS))]
    ends = ["name", *(row["name"] for row in told)]
    return "".join(
        "  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True))
        + f"  {end}\n"
        for row, end in zip(rows, ends, strict=True)
    )


def shares(facts: Mapping[str, Any], most: int = 6) -> str:
    """Shares of device time by library, dtype and what was done, and of the products."""
    whole = facts.get("trace.shares")
    if not isinstance(whole, Mapping):
        return ""
    kernels = facts.get("trace.kernels") or {}
    seconds, count = float(kernels.get("seconds", 0)), int(kernels.get("count", 0))
    device = facts.get("trace.device") or {}
    lines = [f"{count} kernels, {seconds * 1e3:.4g} ms on {device.get('name') or 'the device'}"]
    lines.append(_line("by library", whole.get("library"), most))
    lines.append(_line("by work", whole.get("role"), most))
    products = facts.get("trace.products")
    if isinstance(products, Mapping):
        lines.append(_line("products by dtype", products.get("compute_dtype"), most))
        lines.append(_line("products on matrix units", products.get("matrix_core"), most))
    return "\n".join(line for line in lines if line) + "\n\n"


def _line(head: str, parts: Any, most: int) -> str:
    """`by library: aten 42%, cudnn 30%, 3 more 5%`."""
    if not isinstance(parts, Mapping) or not parts:
        return ""
    total = sum(parts.values()) or 1.0
    ranked = sorted(parts.items(), key=lambda pair: -pair[1])
    told = [f"{word} {_percent(value / total)}" for word, value in ranked[:most]]
    rest = ranked[most:]
    if rest:
        told.append(f"{len(rest)} more {_percent(sum(value for _, value in rest) / total)}")
    return f"  {head}: {', '.join(told)}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
