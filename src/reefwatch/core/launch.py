"""Where this process stands among those that a launcher started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

_Names: TypeAlias = tuple[str, ...]
_FAMILIES: tuple[tuple[_Names, _Names, _Names, _Names], ...] = (
    # (rank, world size, local rank, processes on this node), the most specific launcher first
    (("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",)),  # torchrun, accelerate
    (
        ("OMPI_COMM_WORLD_RANK",),
        ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    (("PMI_RANK", "PMIX_RANK"), ("PMI_SIZE",), ("MPI_LOCALRANKID",), ("MPI_LOCALNRANKS",)),
    (
        ("SLURM_PROCID",),
        ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        ("SLURM_LOCALID",),
        ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
    ),
    (
        ("LOCAL_RANK",),
        ("LOCAL_WORLD_SIZE", "WORLD_SIZE"),
        ("LOCAL_RANK",),
        ("LOCAL_WORLD_SIZE",),
    ),
)


@dataclass(frozen=True)
class Launch:
    """Rank and number of processes; alone is rank 0 of 1."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1
    """Processes on this node, itself among them; 1 when the launcher does not say."""


def names(launch: Launch) -> dict[str, str]:
    """The variables by which `read` finds it again: for a launcher that sets none of its own."""
    values = launch.rank, launch.world, launch.local_rank, launch.local_world
    return {of[0]: str(value) for of, value in zip(_FAMILIES[0], values, strict=True)}


def read(environ: Mapping[str, str]) -> Launch:
    """What torchrun, accelerate, mpirun or srun say of this process; what is malformed is absent.

    A Slurm batch script runs once, whatever `SLURM_NTASKS` says: only a step (srun) has tasks. A
    launcher that gives a rank without a number of processes (srun with PMIx) gives way to one
    that gives both.
    """

    def number(names: _Names, end: str = "") -> int | None:
        for name in names:
            text = re.split(f"[{end}]", environ.get(name, ""))[0] if end else environ.get(name, "")
            if text.isascii() and text.isdigit():
                return int(text)
        return None

    partial: Launch | None = None
    for ranks, worlds, locals_, beside in _FAMILIES:
        rank = number(ranks)
        if rank is None:
            continue
        if ranks == ("SLURM_PROCID",) and "SLURM_JOB_ID" in environ:
            worlds = worlds if "SLURM_STEP_ID" in environ else ()
        told = number(worlds)
        world = max(told or 1, rank + 1)
        here = min(world, number(beside, end="(,") or 1)  # Slurm writes "4(x2),3"
        found = Launch(rank, world, number(locals_) or 0, here)
        if told is not None:
            return found
        partial = partial or found
    return partial or Launch()
