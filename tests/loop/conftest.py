"""The lab of the loop bars, as the tests see it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

VERIFY = Path(__file__).parents[2] / "scripts" / "verify"


@pytest.fixture(scope="session")
def bars() -> Iterator[ModuleType]:
    """`scripts/verify/loop_faults.py`, with what it imports beside it."""
    sys.path.insert(0, str(VERIFY))
    try:
        import loop_faults

        yield loop_faults
    finally:
        sys.path.remove(str(VERIFY))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
