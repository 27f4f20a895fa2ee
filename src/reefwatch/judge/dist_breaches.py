"""Strict mode for collectives: what raises at once, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def breach_message(row: Mapping[str, Any]) -> str | None:
    """The message for a collective on whose signature the ranks do not agree, else None."""
    if row.get("event") != "ranks.call":
        return None
    return f"DIST045: collective {row['number']} is not the same on all ranks: {row['words']}"
