"""Which parts of a file are run, and what is told of each. No kernels here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from reefwatch.experiments.kernels import program


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(text: str) -> tuple[list[dict[str, Any]], list[str]]:
        path = tmp_path / "given.py"
        path.write_text(text)
        begun: list[str] = []
        told = list(program.run(path, lambda unit, names: begun.append(unit), torch))
        sys.modules.pop("given", None)
        return told, begun

    return run


def test_a_main_runs_as_main_with_seeded_numbers(units: Any) -> None:
    text = (
        "import torch\n"
        "if __name__ == '__main__':\n"
        f"    torch.manual_seed({program.SEED}); same = torch.rand(1)\n"
        f"    torch.manual_seed({program.SEED})\n"
        "    assert torch.rand(1) == same\n"
    )
    told, begun = units(text)
    assert [(one["unit"], one["ok"]) for one in told] == [("main", True)]
    assert begun == ["main"]


def test_a_main_that_fails_is_told_with_its_line(units: Any) -> None:
    (told,), _ = units("x = 1\nassert x == 2, 'odd'\n")
    assert not told["ok"]
    assert told["kind"] == "AssertionError"
    assert told["line"] == 2
    assert "odd" in told["error"]


def test_an_exit_with_zero_is_no_failure(units: Any) -> None:
    (told,), _ = units("raise SystemExit(0)\n")
    assert told["ok"]
    (told,), _ = units("raise SystemExit(3)\n")
    assert not told["ok"]


def test_test_functions_run_in_the_order_of_the_file_and_no_main(units: Any) -> None:
    text = (
        "def test_b():\n    pass\n"
        "def test_a():\n    assert False\n"
        "if __name__ == '__main__':\n    raise KeyError\n"
    )
    told, begun = units(text)
    assert begun == ["test_b", "test_a"]
    assert [one["ok"] for one in told] == [True, False]


def test_a_file_that_cannot_be_imported(units: Any) -> None:
    (told,), _ = units("import no_such_module\ndef test_a():\n    pass\n")
    assert (told["unit"], told["kind"]) == ("import", "ModuleNotFoundError")
