"""`reefwatch kernels`: what the command line refuses, and with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from reefwatch.experiments.kernels import environments
from reefwatch.shell import cli


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_text("import torch\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "gfx9999"], ["gfx9999", "not a modelled target", "gfx1100"]),
        (["--target", ","], ["--target", "give one of"]),
        (["--triton", "newest"], ["newest", "not a version such as 3.7"]),
        (["--reference", "add"], ["--reference", "KERNEL=FUNC"]),
        (["--launches", "0"], ["--launches", "from 1 on"]),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], words: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["kernels", str(file), *arguments]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words), told
    assert told.count("\n") == 1


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kernels", "nowhere.py"]) == 2
    assert "cannot open 'nowhere.py'" in capsys.readouterr().err


def test_a_file_that_is_no_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.py"
    path.write_text("def (:\n")
    assert cli.main(["kernels", str(path)]) == 2
    assert "is no Python, line 1" in capsys.readouterr().err


def test_a_version_that_cannot_be_installed_is_said(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("REEFWATCH_TRITON", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    code = cli.main(["kernels", str(file), "--triton", "99.9", "--require-proof"])
    out = capsys.readouterr().out
    assert "triton 99.9 could not be installed: No matching distribution" in out
    assert code == 4
    assert "unproven" in out


def test_versions_that_are_kept_are_found_by_their_minor_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setenv("REEFWATCH_TRITON", str(tmp_path))
    monkeypatch.setattr(environments, "here", lambda: "")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    for version in ("3.7.0", "3.7.10", "3.7.9", "3.70.1"):
        (tmp_path / f"{version}-{tag}" / "triton").mkdir(parents=True)
        (tmp_path / f"{version}-{tag}" / "triton" / "__init__.py").touch()
    found = environments.find("3.7", print)
    assert found.folder == tmp_path / f"3.7.10-{tag}"
    variables = found.variables(tmp_path)
    assert variables["PYTHONPATH"].startswith(str(found.folder))
    assert "TRITON_INTERPRET" not in variables


def test_the_installed_version_needs_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "here", lambda: "3.7.1")
    assert environments.find("3.7", print).folder is None
    assert environments.find("3.7.1", print).folder is None
    assert environments.find("", print).asked == "3.7.1"


def test_without_triton_and_without_a_version(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environments, "here", lambda: "")
    assert cli.main(["kernels", str(file)]) == 2
    assert "name a version with --triton" in capsys.readouterr().err
