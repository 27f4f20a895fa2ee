"""Strict mode for the training loop: what raises at once, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def breach_message(row: Mapping[str, Any]) -> str | None:
    """The message for a row that breaks the loop contract at error level, else None.

    A row is the data of an event, with its kind as `event`. The Inf of a float16 loss is none: a
    GradScaler may have made it, and skips that step.
    """
    if row.get("event") == "loop.cycle" and row["uncleared"]:
        return f"LOOP001: gradients of {row['optimizer']} were not cleared since its last step"
    if row.get("event") == "loop.nonfinite":
        if row["kind"] == "inf" and row.get("dtype") == "float16":
            return None
        if row["source"] != "op":
            return f"LOOP006: the {row['where']} is {row['kind']}; {row['source']}"
        where = f" in {row['module']}" if row["module"] else ""
        return (
            f"LOOP007: the {row['where']} is {row['kind']}; {row['op']}{where} made the first "
            f"{row['made']} ({row['file']}:{row['line']})"
        )
    return None
