"""Rank, world and local rank from what launchers leave in the environment."""

from __future__ import annotations

import pytest

from reefwatch.core.launch import Launch, read

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
SRUN = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "9",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "6",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
}


@pytest.mark.parametrize(
    ("environ", "launch"),
    [
        ({}, Launch(0, 1, 0)),
        (TORCHRUN, Launch(3, 8, 1)),
        (SRUN, Launch(2, 4, 1)),
        ({**SRUN, **TORCHRUN}, Launch(3, 8, 1)),
        (MPIRUN, Launch(5, 6, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, Launch(1, 2, 1)),
        ({"LOCAL_RANK": "1"}, Launch(1, 2, 1)),
        ({"RANK": "1"}, Launch(1, 2, 0)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, Launch(1, 2, 0)),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, Launch(0, 1, 0)),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1"}, Launch(3, 8, 1)),
        ({**TORCHRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, Launch(3, 8, 1)),
        ({"PMIX_RANK": "0", **SRUN, "SLURM_PROCID": "0"}, Launch(0, 4, 1)),  # srun --mpi=pmix
        ({"RANK": "0", "WORLD_SIZE": "0"}, Launch(0, 1, 0)),
        ({"RANK": "first", "WORLD_SIZE": "?"}, Launch(0, 1, 0)),
        ({"RANK": "", "OMPI_COMM_WORLD_RANK": "-1"}, Launch(0, 1, 0)),
        ({"RANK": "²", "WORLD_SIZE": "4"}, Launch(0, 1, 0)),
    ],
)
def test_read(environ, launch):
    assert read(environ) == launch


@pytest.mark.parametrize(
    ("environ", "beside"),
    [
        ({}, 1),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "4"}, 4),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "many"}, 1),
        ({**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}, 3),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, 2),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "3,1"}, 3),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "64"}, 4),
    ],
)
def test_processes_on_this_node(environ, beside):
    assert read(environ).local_world == beside
