"""`reefwatch doctor --scan`: which GPU code is in a file, a wheel or a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reefwatch.core.errors import UsageError

if TYPE_CHECKING:
    from reefwatch.core.fact import Fact
    from reefwatch.core.record import Record
    from reefwatch.core.report import Report

CODES = ("MACH201", "MACH202", "MACH203", "MACH204")


def scan(
    path: str | os.PathLike[str],
    gpus: Sequence[str] = (),
    *,
    host: Any = None,
    progress: Callable[[str, int, int], None] | None = None,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
) -> Report:
    """Judge the GPU code in `path` against `gpus` (`gfx1100`; default: those of this machine).

    `report.records[0]` holds the facts `codes.*` and one event per file. Raises UsageError.
    """
    from reefwatch.api import judging
    from reefwatch.api.settings import Settings
    from reefwatch.judge import engine

    record = gathered(path, gpus, host=host, progress=progress)
    settings = Settings.of(None, config=config, baseline=baseline)
    silences = judging.silences(settings, Path.cwd())
    checks = [check for check in engine.load("machine") if check.code in CODES]
    facts = {"scanned": os.fspath(path)}
    return judging.judged("doctor", [record], None, silences, facts=facts, selected=checks)


def gathered(
    path: str | os.PathLike[str],
    gpus: Sequence[str] = (),
    *,
    host: Any = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Record:
    """The record of a scan, for a verb that judges it among other things. Raises UsageError."""
    from reefwatch.gather.machine.code_objects import facts
    from reefwatch.gather.machine.code_objects import scan as eyes

    try:
        against = facts.given(gpus) if gpus else facts.present(cards(host))
    except ValueError as error:
        raise UsageError(f"--gpu: {error}") from None
    try:
        found = eyes.scan(os.fspath(path), progress)
    except OSError as error:
        raise UsageError(f"--scan {os.fspath(path)}: {error.strerror or error}") from None
    return facts.record(found, against)


def cards(host: Any = None) -> Fact:
    """The AMD GPUs of a machine (default: this one), as doctor sees them: `machine.gpus`."""
    from reefwatch.data import tables
    from reefwatch.gather.host import LiveHost
    from reefwatch.gather.machine import inventory

    return inventory.take(host or LiveHost(), tables.load())["machine.gpus"]
