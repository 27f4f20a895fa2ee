"""One program on the virtual GPU, on the live memory of a launch's tensors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reefwatch import isa
from reefwatch.experiments.kernels.driver import Compiled
from reefwatch.gather.kernels.arguments import Arguments
from reefwatch.isa.launch import MAX_WORKGROUPS


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
