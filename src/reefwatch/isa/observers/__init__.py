"""Observers watch a run and report; each can be off. A run is right or wrong without them too."""

from __future__ import annotations

from reefwatch.isa.observers.base import Observer, Observers, Report

__all__ = ["ALL", "Observer", "Observers", "Report"]

from reefwatch.isa.observers.registry import ALL
