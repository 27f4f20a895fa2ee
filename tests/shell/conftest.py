"""Runs the command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def reefwatch(tmp_path: Path) -> Run:
    """`reefwatch(*args, **environ)` in `tmp_path`."""

    def run(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        ranks = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "NO_COLOR")
        base = {k: v for k, v in os.environ.items() if k not in ranks}
        return subprocess.run(
            [sys.executable, "-m", "reefwatch", *args],
            cwd=tmp_path,
            env={**base, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1", **environ},
            capture_output=True,
            text=True,
            timeout=200,
        )

    return run
