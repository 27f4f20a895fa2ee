"""The table of kernels: a row for each kernel and target, a column for each Triton version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_REASONS = 6
"""Reasons that are told below the table."""


def text(facts: Mapping[str, Any]) -> str:
    """The table, what differs between versions, why verdicts are missing, and a count."""
    rows: Sequence[Mapping[str, Any]] = facts.get("kernels") or ()
    lines = []
    for version, told in (facts.get("matrix") or {}).get("versions", {}).items():
        if told.get("failed"):
            lines.append(f"triton {version}: {told['failed']}")
    if not rows:
        return "\n".join([*lines, ""]) + "\n" if lines else ""
    versions = list(dict.fromkeys(str(row["triton"]) for row in rows))
    cells = {(row["kernel"], row["target"], row["triton"]): row["verdict"] for row in rows}
    pairs = list(dict.fromkeys((row["kernel"], row["target"]) for row in rows))
    table = [("kernel", "target", *versions)]
    table += [(*pair, *(cells.get((*pair, v), "-") for v in versions)) for pair in pairs]
    widths = [max(len(str(row[n])) for row in table) for n in range(len(table[0]))]
    lines += [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    lines.append("")
    lines += _histories(rows)
    lines += _reasons(rows)
    count = Counter(str(row["verdict"]) for row in rows)
    names = {row["kernel"] for row in rows}
    told_ = ", ".join(f"{count[word]} {word}" for word in ("held", "broken", "unproven"))
    many = f"{len(names)} kernel{'s' if len(names) > 1 else ''}"
    lines.append(f"{many}, {len(rows)} verdict{'s' if len(rows) > 1 else ''}: {told_}")
    lines += [f"written: {path}" for path in facts.get("written", ())]
    return "\n".join(lines) + "\n\n"


def _histories(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    told = dict.fromkeys(
        f"{row['kernel']} on {row['target']}: {row['history']}" for row in rows if row["history"]
    )
    return [*told, ""] if told else []


def _reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why verdicts are missing, each reason once with the kernels that it is about."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        if row["verdict"] != "held":
            grouped.setdefault(str(row["reason"]), []).append(str(row["kernel"]))
    lines = []
    for reason, names in list(grouped.items())[:_REASONS]:
        each = list(dict.fromkeys(names))
        more = f" and {len(each) - 3} more" if len(each) > 3 else ""
        lines.append(f"{', '.join(each[:3])}{more}: {reason}")
    if len(grouped) > _REASONS:
        lines.append(f"and {len(grouped) - _REASONS} more reasons (--json has all)")
    return [*lines, ""] if lines else []
