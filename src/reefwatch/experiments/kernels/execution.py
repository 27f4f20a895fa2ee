"""One program on the virtual GPU, on the live memory of a launch's tensors."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reefwatch import isa
from reefwatch.experiments.kernels.driver import Compiled
from reefwatch.gather.kernels.arguments import Arguments
from reefwatch.isa.launch import MAX_WORKGROUPS

_NEAR = 1 << 30
"""Bytes from an address that a tensor holds within which a program is taken to follow it."""


@dataclass
class Ran:
    """What one run gave: `status` is ran, refused or stopped."""

    status: str
    reason: str = ""
    contents: list[Any] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    approximate: list[str] = field(default_factory=list)
    waves: int = 0
    seconds: float = 0.0


def run(
    compiled: Compiled,
    grid: tuple[int, int, int],
    arguments: Arguments,
    observers: Sequence[str] = (),
    schedule: str | int = "lockstep",
    most: int = MAX_WORKGROUPS,
) -> Ran:
    """Run a compiled kernel; the tensors are not changed, `contents` has their bytes after it."""
    groups = grid[0] * grid[1] * grid[2]
    if groups > most:
        return Ran("refused", f"the grid has {groups} workgroups, more than {most} (--most)")
    if "__ockl_printf" in compiled.text or "__ockl_hostcall" in compiled.text:
        return Ran("refused", "not modelled: device_print and device_assert, which wait for a host")
    shared = int(compiled.metadata.shared or 0)
    begun = time.monotonic()
    try:
        result = isa.run(
            compiled.text,
            compiled.target,
            grid,
            arguments.arrays(),
            shared=shared,
            observers=observers,
            schedule=schedule,
        )
    except (isa.UnreadableProgram, isa.UnknownTarget, ValueError) as error:
        return Ran("refused", str(error))
    seconds = time.monotonic() - begun
    if result.refused:
        return Ran("refused", refusals(result.refused), seconds=seconds)
    reports = [vars(report).copy() for report in result.reports]
    if _follows_addresses(reports, arguments):
        why = "not modelled: addresses of real memory that the kernel reads from a tensor"
        return Ran("refused", why, seconds=seconds)
    ran = Ran(
        "stopped" if result.stopped else "ran",
        result.stopped,
        result.buffers,
        reports,
        sorted(getattr(result.counts, "approximate", ())),
        seconds=seconds,
    )
    ran.waves = int(getattr(result.counts, "wave_instructions", 0))
    return ran


def _follows_addresses(reports: Sequence[dict[str, Any]], arguments: Arguments) -> bool:
    """Did the program go to an address that a tensor of i64 holds?"""
    told = [re.search(r"0x([0-9a-f]+)", r["message"]) for r in reports if r["kind"] == "fault"]
    gone = [int(found[1], 16) for found in told if found]
    for buffer in arguments.buffers if gone else ():
        if str(buffer.tensor.dtype) in ("torch.int64", "torch.uint64"):
            held = buffer.memory[: buffer.nbytes // 8 * 8].view("<i8")
            if any((abs(held - address) < _NEAR).any() for address in gone):
                return True
    return False


def refusals(refused: Sequence[Any]) -> str:
    """What is not modelled, in one line."""
    told = dict.fromkeys(f"{one.mnemonic}: {one.reason}" for one in refused)
    return "not modelled: " + "; ".join(list(told)[:6]) + ("; ..." if len(told) > 6 else "")


def scanned(compiled: Compiled) -> dict[str, Any]:
    """What can be said of the program without running it."""
    try:
        scan = isa.scan(compiled.text, compiled.target, shared=int(compiled.metadata.shared or 0))
    except isa.UnreadableProgram as error:
        return {"facts": {}, "matrix": {}, "found": [], "unscanned": [str(error)]}
    return {
        "facts": dict(scan.facts),
        "matrix": dict(scan.matrix),
        "found": [vars(found).copy() for found in scan.found],
        "unscanned": list(scan.unscanned),
    }
