"""Whatever is asked for: the right exit code and one clear line, never a fault of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from reefwatch.core.fact import Evidence
from reefwatch.shell.cli import main
from reefwatch.store.writer import Writer

PATHS = ("nope", "empty", "script.py", "/dev/null", "x" * 5000, "a\nb", "\udcff", "loop", "twins")
RUN = (
    "--exam=-1", "--exam=", "--exam=x", "--exam=nan", "--exam=1..2", "--exam=5parsec",
    "--budget=200%", "--budget=100%", "--budget=-1%", "--budget=%", "--budget=nan", "--budget=inf",
    "--claim=nonsense", "--claim=", "--strict=foo", "--strict=precision,foo", "--out=", "--out= ",
    "--out=script.py", "--json=", "--json=nope/x", "--html=.", "--sarif=empty/", "--config=nope",
    "--baseline=nope",
)  # fmt: skip
REPORT = (
    "--claim=nonsense", "--baseline=nope", "--baseline=.", "--config=nope", "--config=empty",
    "--html=nope/x", "--html=.", "--html=", "--write-baseline=b.json",
)  # fmt: skip
BASELINES = (
    "", "{", "[]", "[" * 100_000, "null", '{"schema": 9, "silences": []}', '{"silences": {}}',
    '{"schema": 1, "silences": [1]}', '{"schema": 1, "silences": [{"code": "LOOP001"}]}',
    '{"schema": NaN, "silences": []}',
    '{"schema": 1, "silences": [{"code": ["x"], "fingerprint": 1, "reason": {}}]}',
    '{"schema": 1, "silences": [{"code": "LOOP001", "fingerprint": "x", "reason": "r", '
    '"expires": "never"}]}',
)  # fmt: skip
CONFIGS = (
    "x = ", "a = " + "[" * 50_000, "silence = 3", "[[silence]]\n", "[silence]\na = 1", "foo = 1",
    "[[silence]]\ncode = 'LOOP001'\n", "[[silence]]\ncode = 'NOPE'\nreason = 'r'\n",
    "[[silence]]\ncode = 5\nreason = []\n",
    "[[silence]]\ncode = 'LOOP001'\nreason = 'r'\nexpires = 'x'\n",
)  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    writer = Writer(tmp_path / "run", {"rank": 0, "world": 1, "run_id": "r"})
    writer.fact("run.steps", Evidence("run.steps", {"count": 1, "kind": "optimizer"}))
    writer.close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "script.py").write_text("raise SystemExit('it must not run')")
    (tmp_path / "loop").symlink_to("loop")
    for number in (1, 2):
        Writer(tmp_path / "twins" / f"a{number}", {"rank": 0, "world": 1}).close()
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line that it is refused with."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("reefwatch: ") and err.count("\n") == 1
    assert "fault of reefwatch" not in err and "Traceback" not in err
    return err


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_report_of_what_is_no_run(here: Path, capsys, path: str) -> None:
    refused(capsys, "report", path)


@pytest.mark.parametrize("option", REPORT)
def test_report_with_nonsense(here: Path, capsys, option: str) -> None:
    refused(capsys, "report", "run", option)


@pytest.mark.parametrize("option", RUN)
def test_run_with_nonsense_runs_nothing(here: Path, capsys, option: str) -> None:
    refused(capsys, "run", option, "script.py")
    assert not (here / "reefwatch-runs").exists()


@pytest.mark.parametrize("text", BASELINES, ids=range(len(BASELINES)))
def test_a_malformed_baseline(here: Path, capsys, text: str) -> None:
    (here / "b.json").write_text(text)
    assert "b.json" in refused(capsys, "report", "run", "--baseline=b.json")


@pytest.mark.parametrize("text", CONFIGS, ids=range(len(CONFIGS)))
def test_a_malformed_configuration(here: Path, capsys, text: str) -> None:
    (here / "c.toml").write_text(text)
    assert "c.toml" in refused(capsys, "report", "run", "--config=c.toml")


@pytest.mark.parametrize("text", ["tool = 5", "[tool]\nreefwatch = 3", "[tool.reefwatch]\nx = 1"])
def test_a_malformed_pyproject(here: Path, capsys, text: str) -> None:
    (here / "pyproject.toml").write_text(text)
    assert "pyproject.toml" in refused(capsys, "report", "run")


@pytest.mark.parametrize("code", ["nope", "", "PREC999", "\0", "LOOP001 LOOP002", "-1", "a\nb"])
def test_explain_nonsense(here: Path, capsys, code: str) -> None:
    refused(capsys, "explain", code)


@pytest.mark.parametrize("verb", ["", "nope", "RUN", "script.py", "--nope", "\0", "a\nb"])
def test_no_verb(here: Path, capsys, verb: str) -> None:
    refused(capsys, verb)


def test_the_same_twice_is_once(here: Path, capsys) -> None:
    assert main(["report", "run", "run", "run/rank0.jsonl"]) == 0
    assert "unproven" in capsys.readouterr().out


def test_a_script_on_stdin_has_a_name(here: Path, capsys) -> None:
    assert "/dev/stdin" in refused(capsys, "run", "-")
