"""What a card is good for, in plain words, by the table."""

from __future__ import annotations

from typing import Any

from reefwatch.data.tables import Tables, grade

USES = ("inference", "fine-tuning", "training", "kernels", "bit-for-bit")
"""What people want of a card; `kernels` is research with kernels of one's own, `bit-for-bit` is
agreement with CUDA."""
_FIELDS = ("use", "works", "expect", "avoid", "source")


def of(tables: Tables, gfx: str) -> list[dict[str, Any]]:
    """One row per use: works, expect, avoid, source. A use without a row says that."""
    found = []
    for use in USES:
        rows = [
            row
            for row in tables.machine.get("suitability", ())
            if row.get("use") == use and (gfx in row["gfx"] or "*" in row["gfx"])
        ]
        # a user's own row stands behind ours, and is meant in place of it
        row = rows[-1] if rows else {"use": use, "works": f"not known for {gfx}", "source": "none"}
        told: dict[str, Any] = {name: str(row.get(name, "")) for name in _FIELDS}
        found.append({**told, "grade": grade(told["source"]).value})
    return found


def card(tables: Tables, wanted: str) -> list[dict[str, str]]:
    """Cards of the table whose name or target has the text: name and target."""
    text = " ".join(wanted.lower().split())
    rows = [{"name": str(r["name"]), "gfx": str(r["arch"])} for r in tables.gpus.get("gpu", ())]
    short = ("amd radeon ", "amd instinct ", "")
    exact = [
        row
        for row in rows
        if text == row["gfx"] or text in [row["name"].lower().removeprefix(one) for one in short]
    ]
    return exact or [row for row in rows if text and text in row["name"].lower()]
