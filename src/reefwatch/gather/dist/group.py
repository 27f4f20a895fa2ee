"""What torch.distributed tells of this process, without touching it."""

from __future__ import annotations

import json
import os
from typing import Any


def module(torch: Any) -> Any:
    """torch.distributed with a process group of several ranks, else None."""
    dist = getattr(torch, "distributed", None)
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist if dist.get_world_size() > 1 else None


def issued(dist: Any) -> int:
    """Collectives that this rank has issued in the default group; -1 where that is not told."""
    try:
        group = dist.distributed_c10d._get_default_group()
        return int(group._get_sequence_number_for_group())
    except Exception:  # a backend without numbers
        return -1


def recorded() -> list[dict[str, Any]]:
    """Entries of the flight recorder: NCCL and RCCL keep one apart from the other backends'."""
    try:
        from torch._C import _distributed_c10d

        c10d: Any = _distributed_c10d
    except ImportError:
        return []
    for name in ("_dump_nccl_trace_json", "_dump_fr_trace_json"):
        try:
            entries = list(json.loads(getattr(c10d, name)()).get("entries", ()))
        except Exception:  # not in this torch, or it is off
            continue
        if entries:
            return entries
    return []


def flight(last: int = 6) -> list[dict[str, Any]]:
    """The last collectives by torch's flight recorder: `number, op, sizes, at (user's line)`.

    Empty where it is off.
    """
    entries = recorded()
    return [
        {
            "number": entry.get("collective_seq_id", -1),
            "op": str(entry.get("profiling_name", "")).partition(":")[2],
            "sizes": str(entry.get("input_sizes", "")),
            "state": str(entry.get("state", "")),
        }
        for entry in entries[-last:]
    ]


def inside(frame: Any) -> bool:
    """True when what the program has called is a collective or a backward pass."""
    parts = (os.path.join("torch", "distributed"), os.path.join("nn", "parallel"), "autograd")
    while frame is not None:
        file = frame.f_code.co_filename
        if f"{os.sep}torch{os.sep}" not in file:
            return False
        if any(part in file for part in parts):
            return True
        frame = frame.f_back
    return False


def place(frame: Any) -> str:
    """`file:line` of the innermost frame that is neither torch's, python's nor ours."""
    ours = os.sep + os.path.join("reefwatch", "")
    while frame is not None:
        file = frame.f_code.co_filename
        foreign = (f"{os.sep}torch{os.sep}", f"{os.sep}lib{os.sep}python", ours, "<")
        if not any(part in file for part in foreign):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
