"""Pipes, devices and links under the names of files: nothing blocks, and nothing is replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from reefwatch.api import judging
from reefwatch.core.errors import UnreadableRecord
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place
from reefwatch.store import regular, silences
from reefwatch.store.reader import load, read
from reefwatch.store.writer import Writer


def record(folder: Path, rank: int = 0, world: int = 1) -> Path:
    writer = Writer(folder, {"rank": rank, "world": world, "run_id": "r"})
    writer.fact("a", Evidence("a", 1))
    writer.close()
    assert writer.path is not None
    return writer.path


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def folder(path: Path) -> None:
    path.mkdir()


ODD = {pipe: "not a file", zero: "not a file", loop: "symbolic links", folder: "a folder"}


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_what_is_no_file_is_refused(tmp_path: Path, make: object) -> None:
    path = tmp_path / "rank0.jsonl"
    make(path)  # type: ignore[operator]
    for action in (lambda: read(path), lambda: load([tmp_path])):
        with pytest.raises(UnreadableRecord) as caught:
            action()
        assert ODD[make] in str(caught.value)  # type: ignore[index]
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_it_takes_only_its_own_rank_along(tmp_path: Path, make: object) -> None:
    record(tmp_path)
    make(tmp_path / "rank1.jsonl")  # type: ignore[operator]
    (first,) = load([tmp_path])
    assert any(remark.startswith("not read: ") for remark in first.remarks)


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, ""])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(UnreadableRecord) as caught:
        load([Path("/nowhere") / name])
    assert "\n" not in str(caught.value)


def test_a_loop_of_folders_is_no_loop_of_ours(tmp_path: Path) -> None:
    record(tmp_path)
    (tmp_path / "spawned-1").symlink_to(".")
    (tmp_path / "spawned-2").symlink_to("spawned-2")
    records = judging.read([tmp_path])
    assert [one.header.get("group") for one in records] == [None, "spawned-1", "spawned-2"]
    assert "symbolic links" in records[2].damage


def test_a_damaged_child_leaves_the_others_and_is_told(tmp_path: Path) -> None:
    record(tmp_path)
    (tmp_path / "spawned-1").mkdir()
    (tmp_path / "spawned-1" / "rank0.jsonl").write_text("junk")
    first, lost = judging.read([tmp_path])
    assert first.complete
    assert lost.damage.endswith("rank0.jsonl: not a record")
    assert lost.remarks == (f"not read: {lost.damage}",)


def test_any_number_of_ranks_may_be_missing(tmp_path: Path) -> None:
    for rank in (1, 2, 5):
        record(tmp_path, rank, 10**9)
    first, *_ = load([tmp_path])
    (gap,) = (remark for remark in first.remarks if remark.startswith("no record of"))
    assert gap.startswith("no record of ranks 0, 3-4, 6-999999999 of 1000000000: ")
    assert len(judging.absent(load([tmp_path]))) == 8


def test_the_place_of_a_finding_may_be_a_pipe(tmp_path: Path) -> None:
    pipe(tmp_path / "train.py")
    place = Place(file=str(tmp_path / "train.py"), line=1)
    finding = Finding("x", (Evidence("a", 1),), place)
    assert silences.inline([finding]) == ((), ())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    regular.written(path, "after")
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    regular.written(link, "after")
    assert link.is_symlink() and target.read_text() == "after"


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    pipe(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    regular.written(path, "all of it")
    assert os.read(reading, 100) == b"all of it"
    os.close(reading)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_full_device_is_told(tmp_path: Path) -> None:
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        regular.written(link, "x")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize("moved", [False, True])
def test_a_record_that_vanished_is_written_again(tmp_path: Path, moved: bool) -> None:
    writer = Writer(tmp_path / "run", {"rank": 0, "world": 1, "run_id": "r"})
    writer.fact("a", Evidence("a", 1))
    writer.event("loop.loss", {"values": [1.0]}, id="0")
    if moved:
        (tmp_path / "run").rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "run" / "rank0.jsonl").unlink()
        (tmp_path / "run").rmdir()
    writer.fact("a", Evidence("a", 2))
    writer.close()
    again = read(tmp_path / "run" / "rank0.jsonl")
    assert again.complete and not again.damage
    assert again.facts["a"] == Evidence("a", 2)
    assert [event.kind for event in again.events] == ["loop.loss"]
    what = "moved" if moved else "deleted"
    assert [r for r in again.remarks if f"was {what} while the run went on, and" in r]
    assert list(again.remarks) == list(writer.record().remarks)
