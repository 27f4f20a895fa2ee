"""The files of the house (scripts, READMEs, examples) as the tests see them."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def script() -> Callable[[str], ModuleType]:
    """Loads `scripts/<name>.py` as a module."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(
            f"house_{name}".replace("/", "_"), ROOT / f"scripts/{name}.py"
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load
