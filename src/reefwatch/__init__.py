"""Reefwatch proves that a PyTorch run did what it claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reefwatch.api import explain, report, run, watch
    from reefwatch.core.errors import Breach, ReefwatchError
    from reefwatch.core.report import Report

__version__ = "0.1.0"
__all__ = ["Breach", "ReefwatchError", "Report", "explain", "report", "run", "watch"]

_HOME = {
    "Breach": "reefwatch.core.errors",
    "ReefwatchError": "reefwatch.core.errors",
    "Report": "reefwatch.core.report",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'reefwatch' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME.get(name, "reefwatch.api")), name)
