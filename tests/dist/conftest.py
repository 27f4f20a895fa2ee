"""The programs of the bars, as the tests run them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
VERIFY = ROOT / "scripts" / "verify"


@pytest.fixture(scope="session")
def bars() -> Iterator[ModuleType]:
    """`scripts/verify/dist.py`, with what it imports beside it."""
    sys.path.insert(0, str(VERIFY))
    try:
        import dist as bars

        yield bars
    finally:
        sys.path.remove(str(VERIFY))
        sys.modules.pop("dist", None)


@pytest.fixture
def reefwatch(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a folder of its own."""

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        environ = {k: v for k, v in os.environ.items() if not k.endswith("VISIBLE_DEVICES")}
        return subprocess.run(
            [sys.executable, "-m", "reefwatch", *words],
            cwd=tmp_path,
            env={**environ, "OMP_NUM_THREADS": "1", **more},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
