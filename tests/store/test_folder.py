"""All processes of one launch find one folder; no earlier record is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reefwatch.core.errors import UsageError
from reefwatch.store import folder
from reefwatch.store.folder import new, run_id

TORCHRUN = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


def rank(number: int, **more: str) -> dict[str, str]:
    return {**TORCHRUN, "RANK": str(number), "LOCAL_RANK": str(number), **more}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def strftime(self, form: str) -> str:
        return f"20270115-{self.now % 1e6:06.0f}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(folder.time, "time", clock)
    monkeypatch.setattr(folder.time, "strftime", clock.strftime)
    return clock


def test_a_single_process(tmp_path: Path, clock: Clock) -> None:
    first = new(None, "/home/x/train.py", 0, {})
    second = new(None, "/home/x/train.py", 0, {})
    assert first.parent == tmp_path / "reefwatch-runs" and first.is_dir()
    assert first.name.endswith("-train")
    assert second.name == f"{first.name}-2"
    assert (first.parent / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    ("script", "stem"),
    [
        ("", "session"),
        ("my model (v2).py", "my_model_v2"),
        ("pkg.train", "pkg.train"),
        ("../..", "session"),
        ("x" * 300, "x" * 40),
        ("/a/b/", "b"),
        ("训练.py", "session"),
    ],
)
def test_names(script: str, stem: str, clock: Clock) -> None:
    assert new(None, script, 0, {}).name.split("-", 2)[2] == stem


def test_ranks_seconds_apart_meet(clock: Clock) -> None:
    one = new(None, "train.py", 1, rank(1))
    clock.now += 45
    assert new(None, "train.py", 0, rank(0)) == one


def test_a_rerun_on_the_same_port_within_the_second(clock: Clock) -> None:
    first = {new(None, "train.py", n, rank(n)) for n in (0, 1)}
    second = {new(None, "train.py", n, rank(n)) for n in (1, 0)}
    assert len(first) == len(second) == 1
    assert first != second


def test_a_rerun_after_a_launch_that_died_half_started(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = new(None, "train.py", 0, rank(0))
    monkeypatch.setattr(folder, "_lives", lambda pid: False)
    clock.now += 5
    assert new(None, "train.py", 1, rank(1)) != first


def test_a_rerun_much_later(clock: Clock) -> None:
    first = new(None, "train.py", 0, rank(0))
    clock.now += 3600
    assert new(None, "train.py", 1, rank(1)) != first


def test_other_launches_at_the_same_time(clock: Clock) -> None:
    first = new(None, "train.py", 0, rank(0))
    assert new(None, "train.py", 1, rank(1, MASTER_PORT="29501")) != first
    assert new(None, "train.py", 1, rank(1, TORCHELASTIC_RESTART_COUNT="1")) != first
    assert new(None, "train.py", 1, rank(1, WORLD_SIZE="4")) != first
    assert new(None, "train.py", 1, rank(1)) == first


def test_a_named_folder_moves_an_earlier_record_aside(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for n in range(3):
        assert new(out, "train.py", 0, {}) == out
        (out / "rank0.jsonl").write_text(f"run {n}")
        (out / "rank0.tensors").write_text("")
        (out / "report.html").write_text("")
        (out / "notes.txt").write_text("mine")
        (out / "spawned-1").mkdir()
    assert (out / "rank0.jsonl").read_text() == "run 2"
    assert (out / "earlier-1" / "rank0.jsonl").read_text() == "run 0"
    assert (out / "earlier-2" / "rank0.jsonl").read_text() == "run 1"
    assert sorted(p.name for p in (out / "earlier-1").iterdir()) == [
        "rank0.jsonl",
        "rank0.tensors",
        "report.html",
        "spawned-1",
    ]


def test_a_named_folder_of_several_ranks(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for run in range(2):
        for n in (1, 0):
            assert new(out, "train.py", n, rank(n)) == out
            (out / f"rank{n}.jsonl").write_text(f"run {run}")
    assert {p.read_text() for p in out.glob("rank*.jsonl")} == {"run 1"}
    assert {p.read_text() for p in out.glob("earlier-1/rank*.jsonl")} == {"run 0"}
    assert not (out / "earlier-2").exists()


def test_processes_that_start_at_once_meet(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from reefwatch.store.folder import new\n"
        "print(new(None, 'train.py', int(os.environ['RANK'])), flush=True); sys.stdin.read()"
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **rank(n, WORLD_SIZE="6")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(6)
    ]
    told = set()
    for process in ranks:
        assert process.stdout is not None
        told.add(process.stdout.readline())
    for process in ranks:
        process.communicate(timeout=30)
    assert len(told) == 1
    assert len([path for path in (tmp_path / "reefwatch-runs").iterdir() if path.is_dir()]) == 1


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match="a file, not a folder"):
        new(tmp_path / "out", "train.py", 0, {})


@pytest.mark.parametrize("environ", [{}, TORCHRUN])
@pytest.mark.parametrize("out", [None, Path("out")])
def test_where_nothing_can_be_made(
    environ: dict[str, str], out: Path | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", read_only)
    where = new(out, "train.py", 0, environ)
    assert where.is_relative_to(tmp_path) and not where.exists()


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert new(None, "train.py", 0, {}).name.endswith("-train")


@pytest.mark.parametrize("junk", ["", "{", "[]", '{"a": 3}', '{"a": {"time": "x"}}', "\0"])
def test_a_spoiled_table_is_started_anew(tmp_path: Path, junk: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / ".launch").write_text(junk)
    assert new(out, "train.py", 0, rank(0)) == out


def test_run_ids() -> None:
    assert run_id(rank(0)) == run_id(rank(1))
    assert run_id(rank(0)) != run_id(rank(0, MASTER_PORT="1"))
    assert run_id({}) != run_id({})


def test_the_table_names_no_host(tmp_path: Path) -> None:
    new(tmp_path / "out", "train.py", 0, rank(0))
    assert os.uname().nodename not in (tmp_path / "out" / ".launch").read_text().split('"')
