"""Is a group as it was after a call that was refused?

Where a call raises between the begin and the end of coalescing, torch leaves the group collecting:
later calls return at once and nothing has run. Seen with torch 2.11 over NCCL (a strided
`batch_isend_irecv`, an uneven `all_gather` of int16), 2.13 over gloo (`_coalescing_manager`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

from reefwatch.experiments.dist.steps import Bench

COLLECTING = "later calls of the group return without having run"
LOST = "later calls of the group are wrong, and it could not be put right"


def left(bench: Bench, name: str, ranks: tuple[int, ...]) -> str:
    """What the call left behind, put right where it can be; "" when nothing.

    All ranks of the group ask, under the same name. Every answer is the same on all of them.
    """
    group = bench.groups.get(ranks) or dist.distributed_c10d._get_default_group()
    collecting = dist.distributed_c10d._world.pg_coalesce_state.pop(group, None) is not None
    if collecting:
        _end(group, bench)
    first = "" if not collecting and _right(bench, group, ranks) else "1"
    told = bench.tell_all(f"left/{name}", first, ranks)
    if not any(told):
        return ""
    if not collecting:
        _end(group, bench)
    second = "" if _right(bench, group, ranks) else "1"
    return LOST if any(bench.tell_all(f"mended/{name}", second, ranks)) else COLLECTING


def _end(group: Any, bench: Bench) -> None:
    with suppress(Exception):  # it was not begun, or the backend knows none
        group._end_coalescing(torch.device(bench.device))


def _right(bench: Bench, group: Any, ranks: tuple[int, ...]) -> bool:
    """True when a sum of three numbers over the group is what it must be."""
    members = ranks or tuple(range(bench.world))
    tensor = torch.full((3,), float(bench.rank + 1), device=bench.device)
    try:
        dist.all_reduce(tensor, group=group)
        return bool(tensor.tolist() == [float(sum(members) + len(members))] * 3)
    except Exception:
        return False
