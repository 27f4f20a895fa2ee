"""Runs of a bar side by side, each in a process of its own where more than one at a time is asked.

`JOBS=8 make verify-numerics`: what a run finds does not depend on its neighbours, only on its own
seed, so the tables are the same from any number of them.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def each(work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
    """What `work` makes of each of the jobs, in their order."""
    side_by_side = int(os.environ.get("JOBS", "1"))
    if side_by_side < 2:
        yield from map(work, jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(side_by_side, mp_context=context) as pool:
        yield from pool.map(work, jobs)
