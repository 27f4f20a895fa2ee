"""The observers by name."""

from __future__ import annotations

from reefwatch.isa.observers.base import Observer

ALL: dict[str, type[Observer]] = {}
