from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

FAULTLAB = Path(__file__).parents[1] / "data" / "faultlab" / "faultlab.py"


@pytest.fixture(scope="session")
def faultlab() -> ModuleType:
    spec = importlib.util.spec_from_file_location("faultlab", FAULTLAB)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
