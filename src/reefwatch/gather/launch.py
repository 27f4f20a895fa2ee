"""Where this process stands among those that a launcher started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

_Names: TypeAlias = tuple[str, ...]
_FAMILIES: tuple[tuple[_Names, _Names, _Names], ...] = (
    # (rank, world size, local rank), the most specific launcher first
    (("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",)),  # torchrun, accelerate
    (
        ("OMPI_COMM_WORLD_RANK",),
        ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
    ),
    (("PMI_RANK", "PMIX_RANK"), ("PMI_SIZE",), ("MPI_LOCALRANKID",)),
    (("SLURM_PROCID",), ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), ("SLURM_LOCALID",)),
    (("LOCAL_RANK",), ("LOCAL_WORLD_SIZE", "WORLD_SIZE"), ("LOCAL_RANK",)),
)


@dataclass(frozen=True)
class Launch:
    """Rank and number of processes; alone is rank 0 of 1."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0


def read(environ: Mapping[str, str]) -> Launch:
    """What torchrun, accelerate, mpirun or srun say of this process; what is malformed is absent.

    A Slurm batch script runs once, whatever `SLURM_NTASKS` says: only a step (srun) has tasks.
    """

    def number(names: tuple[str, ...]) -> int | None:
        for name in names:
            text = environ.get(name, "")
            if text.isascii() and text.isdigit():
                return int(text)
        return None

    for ranks, worlds, locals_ in _FAMILIES:
        rank = number(ranks)
        if rank is None:
            continue
        if ranks == ("SLURM_PROCID",) and "SLURM_JOB_ID" in environ:
            worlds = worlds if "SLURM_STEP_ID" in environ else ()
        world = max(number(worlds) or 1, rank + 1)
        return Launch(rank, world, number(locals_) or 0)
    return Launch()
