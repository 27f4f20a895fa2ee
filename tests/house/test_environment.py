"""The environment of the Makefile uses a torch that is already there."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def environment(script):
    return script("environment")


def test_a_python_without_torch_shows_nothing(environment, monkeypatch):
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)
    assert environment.outer_folders() == []


def test_a_python_with_torch_shows_its_packages(environment, monkeypatch, tmp_path):
    package = tmp_path / "site" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert environment.outer_folders()[0] == tmp_path / "site"


def test_linked_folders_come_after_the_environments_own(environment, tmp_path):
    outer = tmp_path / "outer"
    (outer / "torch").mkdir(parents=True)
    (outer / "torch" / "__init__.py").write_text("")
    (outer / "both.py").write_text("")
    inner = tmp_path / "env"
    venv.create(inner, with_pip=False, symlinks=True)
    environment.link(inner, [outer])
    (packages,) = inner.glob("lib/python*/site-packages")
    (packages / "both.py").write_text("")
    asked = subprocess.run(
        [inner / "bin/python", "-c", "import torch, both; print(torch.__file__, both.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    torch_file, both_file = map(Path, asked.stdout.split())
    assert torch_file.parent.parent == outer
    assert both_file.parent == packages


def test_an_environment_that_exists_is_left_as_it_is(environment, tmp_path, capsys):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("")
    assert environment.main(str(tmp_path)) == 0
    assert capsys.readouterr().out == ""
