"""How much of each list a page shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How much of each list is shown; the rest is counted."""

    findings: int
    evidence: int
    rows: int
    nodes: int
    points: int
    text: int
    page: int
