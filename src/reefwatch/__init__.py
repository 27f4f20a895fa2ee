"""Reefwatch proves that a PyTorch run did what it claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reefwatch.api import explain, report, run, watch
    from reefwatch.api.compiled import compile as compile
    from reefwatch.api.compiled import compiled_report as compiled_report
    from reefwatch.core.errors import Breach, ReefwatchError
    from reefwatch.core.report import Report

__version__ = "0.1.0"
__all__ = ["Breach", "ReefwatchError", "Report", "explain", "report", "run", "watch"]

_HOME = {
    "Breach": "reefwatch.core.errors",
    "ReefwatchError": "reefwatch.core.errors",
    "Report": "reefwatch.core.report",
    "compile": "reefwatch.api.compiled",
    "compiled_report": "reefwatch.api.compiled",
}
"""Where a name is, other than in `reefwatch.api`. `compile` is not in `__all__`: with `import *` it
would stand in the place of the builtin."""


def __getattr__(name: str) -> Any:
    if name not in __all__ and name not in _HOME:
        raise AttributeError(f"module 'reefwatch' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME.get(name, "reefwatch.api")), name)
