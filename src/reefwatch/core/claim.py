"""What a run claims, who says so, and how much it may be off."""

from __future__ import annotations

from dataclasses import dataclass

CONTRACTS = {
    "MACH": "machine",
    "PREC": "precision",
    "NUM": "numerics",
    "REF": "numerics",
    "COMP": "compile",
    "KERN": "kernels",
    "DIST": "dist",
    "LOOP": "loop",
    "PERF": "perf",
    "QUANT": "quant",
}
"""The contract that each family of codes belongs to."""


@dataclass(frozen=True)
class Tolerance:
    """How much a value may be off, and where that much comes from."""

    limit: float
    unit: str
    why: str

    def __post_init__(self) -> None:
        if not self.why.strip():
            raise ValueError("a Tolerance needs a reason")

    def exceeded_by(self, value: float) -> bool:
        """True when `value` (in the same unit) is above the limit, or is not a number."""
        return not value <= self.limit
