"""A launch as it was written, and a build of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reefwatch.experiments.kernels.driver import Compiled
from reefwatch.gather.kernels.arguments import Arguments


@dataclass
class Call:
    """A launch as the program wrote it."""

    jit: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    grid: Any


@dataclass
class Subject:
    """A compiled kernel with the launch's arguments: what is judged, or a witness."""

    compiled: Compiled
    grid: tuple[int, int, int]
    arguments: Arguments
    asm: Mapping[str, Any]
