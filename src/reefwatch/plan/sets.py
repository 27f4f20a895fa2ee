"""What the solver says: a set with its rows, or a conflict with a name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

WEAK = ("inferred", "unverified", "recalled", "unknown")
"""Confidences on which nothing may rest in silence, the best first. Others: sourced, partly."""
ORDER = ("sourced", "partly", *WEAK)


@dataclass(frozen=True)
class Wishes:
    """What is asked for. Empty is: whatever fits best."""

    vendor: str = "amd"
    """amd, nvidia or cpu"""
    gpu: str = ""
    """The card's name, or its target."""
    gfx: str = ""
    os: str = ""
    python: str = ""
    torch: str = ""
    rocm: str = ""
    """`7.2`, `10.1.0`"""
    channel: str = ""
    """upstream or amd"""
    libraries: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """torchvision or torchaudio"""
    source: str = ""
    """An index to take torch from in place of the table's; `pip` for whatever pip is set up to."""


@dataclass(frozen=True)
class Row:
    """One part of a set: what, which, why, who says so, and how sure that is."""

    what: str
    value: str
    why: str = ""
    source: str = ""
    confidence: str = "sourced"


@dataclass(frozen=True)
class Pin:
    """One distribution to install. `own_index`: from the index of torch, not from PyPI."""

    name: str
    version: str
    own_index: bool = False
    extras: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    """Variables and options for a package that is compiled here."""

    def __str__(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.name}{extras}=={self.version}"


@dataclass(frozen=True)
class Plan:
    """One consistent set."""

    wishes: Wishes
    rows: tuple[Row, ...]
    pins: tuple[Pin, ...]
    index: str
    """Where the pins with `own_index` come from; empty for pip's own."""
    family: tuple[str, ...] = ()
    """Distributions that torch brings from its index, besides the pins."""
    environment: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    asof: str = ""

    @property
    def weak(self) -> tuple[Row, ...]:
        """The rows that are not sourced."""
        return tuple(row for row in self.rows if row.confidence in WEAK)

    @property
    def confidence(self) -> str:
        """The weakest of its rows."""
        return max((row.confidence for row in self.rows), key=ORDER.index, default="unknown")

    def row(self, what: str) -> Row | None:
        return next((row for row in self.rows if row.what == what), None)

    def plain(self) -> dict[str, Any]:
        """Of what JSON has."""
        from dataclasses import asdict

        made = asdict(self)
        made["pins"] = [{**asdict(pin), "requirement": str(pin)} for pin in self.pins]
        made["weak"] = [row.what for row in self.weak]
        made["confidence"] = self.confidence
        return made


@dataclass(frozen=True)
class Conflict:
    """Why there is no such set."""

    name: str
    words: str
    changed: str = ""
    """What is given up in `nearest`."""
    nearest: Plan | None = None

    def with_nearest(self, plan: Plan, changed: str) -> Conflict:
        return replace(self, nearest=plan, changed=changed)


def weakest(*confidences: str) -> str:
    """The least sure of them."""
    return max(confidences, key=ORDER.index)


def told_by(text: str, otherwise: str = "sourced") -> str:
    """The confidence that the words of a table's source or note admit."""
    low = text.lower()
    for word, confidence in (
        ("unknown", "unverified"),
        ("unverified", "unverified"),
        ("not confirmed", "unverified"),
        ("from memory", "recalled"),
        ("recalled", "recalled"),
        ("inferred", "inferred"),
        ("assumed", "inferred"),
        ("copied from", "inferred"),
    ):
        if word in low:
            return weakest(confidence, otherwise)
    return otherwise
