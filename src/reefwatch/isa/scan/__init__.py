"""Reads a program without running it: resources, matrix cores, and orders that are not assured."""

from __future__ import annotations

from reefwatch.isa.scan.door import Scan, scan

__all__ = ["Scan", "scan"]
