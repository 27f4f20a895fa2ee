"""Reads logs as the verb does, without a process; and the command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reefwatch.triage.catalogue import families
from reefwatch.triage.decide import decide
from reefwatch.triage.diagnosis import Diagnosis
from reefwatch.triage.scan import Scanner

SRC = Path(__file__).parents[2] / "src"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def scanner() -> Scanner:
    return Scanner(families())


@pytest.fixture
def told(scanner: Scanner) -> Callable[..., Diagnosis]:
    """`told(log, ...)`: the diagnosis of logs, named log0, log1 ..."""

    def of(*logs: str, machine: dict[str, Any] | None = None) -> Diagnosis:
        scans = [scanner.read([log.encode()], number) for number, log in enumerate(logs)]
        return decide(scans, families(), [f"log{n}" for n in range(len(logs))], machine)

    return of


@pytest.fixture
def reefwatch(tmp_path: Path) -> Run:
    """`reefwatch(*args, stdin=bytes, **environ)` in `tmp_path`."""

    def run(
        *args: str, stdin: bytes | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        ranks = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "NO_COLOR")
        base = {k: v for k, v in os.environ.items() if k not in ranks}
        done = subprocess.run(
            [sys.executable, "-m", "reefwatch", *args],
            cwd=tmp_path,
            env={**base, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1", **environ},
            input=b"" if stdin is None else stdin,
            capture_output=True,
            timeout=200,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return run
