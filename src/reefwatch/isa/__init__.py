"""The virtual AMD GPU: runs a kernel's assembly text on the CPU. See docs/isa.md."""

from __future__ import annotations

from reefwatch.isa.blocks import Refusal
from reefwatch.isa.generations import UnknownTarget, targets
from reefwatch.isa.launch import Result, Scalar, parse, run
from reefwatch.isa.observers import ALL as OBSERVERS
from reefwatch.isa.observers import Report
from reefwatch.isa.scan import Scan, scan
from reefwatch.isa.text import Program, UnreadableProgram

__all__ = [
    "OBSERVERS", "Program", "Refusal", "Report", "Result", "Scalar", "Scan", "UnknownTarget",
    "UnreadableProgram", "parse", "run", "scan", "targets",
]  # fmt: skip
