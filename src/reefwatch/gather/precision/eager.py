"""Compiled frames that went back to eager: dynamo's own counters, read without importing it."""

from __future__ import annotations

import sys
from typing import Any


class Eager:
    """Tells once that dynamo gave a frame up."""

    def __init__(self) -> None:
        self._told = False

    def gone(self) -> dict[str, Any] | None:
        """A row for the referee when a frame ran into the recompile limit or was left to eager."""
        if self._told:
            return None
        dynamo = sys.modules.get("torch._dynamo.utils")
        counters = getattr(dynamo, "counters", None)
        if not counters:
            return None
        for kind in ("recompile_limit", "unimplemented", "graph_break"):
            reasons = counters.get(kind)
            if reasons:
                self._told = True
                why = next(iter(reasons))
                return {"kind": "compile", "what": kind.replace("_", " "), "why": str(why)[:200]}
        return None
