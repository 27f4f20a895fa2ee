"""Records of several ranks and nodes are put together, and what does not fit is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reefwatch.core.errors import UnreadableRecord
from reefwatch.store.reader import load
from reefwatch.store.writer import Writer


def write(folder: Path, rank: int, world: int = 1, **more: object) -> Path:
    writer = Writer(folder, {"rank": rank, "world": world, "run_id": "r", **more})
    writer.event("loop.loss", {"values": [float("nan")]})
    writer.close()
    assert writer.path is not None
    return writer.path


def test_ranks_come_in_order(tmp_path: Path) -> None:
    for rank in (10, 2, 0):
        write(tmp_path, rank, 11)
    records = load([tmp_path])
    assert [record.rank for record in records] == [0, 2, 10]
    assert records[0].remarks == (
        "no record of ranks 1, 3-9 of 11: nothing is said of what they did",
    )
    assert records[1].remarks == ()


def test_folders_of_several_nodes_and_single_files(tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path / f"node{rank // 2}", rank, 4)
    records = load([tmp_path / "node1", tmp_path / "node0" / "rank0.jsonl", tmp_path / "node0"])
    assert [record.rank for record in records] == [0, 1, 2, 3]
    assert all(record.remarks == () for record in records)


def test_a_copy_is_told_and_another_record_of_the_rank_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", 0)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    records = load([tmp_path / "a", tmp_path / "b"])
    assert len(records) == 1 and "is a copy of" in records[0].remarks[0]
    write(tmp_path / "c", 0, pid=7)
    with pytest.raises(UnreadableRecord, match="rank 0 has two records"):
        load([tmp_path / "a", tmp_path / "c"])


def test_different_runs_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", 0, 2)
    write(tmp_path / "b", 1, 2, run_id="other")
    with pytest.raises(UnreadableRecord, match=r"different runs \(r and other\)"):
        load([tmp_path / "a", tmp_path / "b"])


def test_ranks_that_started_hours_apart_are_told(tmp_path: Path) -> None:
    write(tmp_path / "a", 0, 2, started="2027-01-15T10:00:00+00:00")
    write(tmp_path / "b", 1, 2, started="2027-01-15T12:00:00+00:00")
    (remark,) = load([tmp_path / "a", tmp_path / "b"])[0].remarks
    assert remark.startswith("rank 1 started 120 minutes after rank 0")


@pytest.mark.parametrize("started", ["yesterday", None, 3, "9999-99-99"])
def test_a_start_that_is_no_time(tmp_path: Path, started: object) -> None:
    write(tmp_path, 0, started=started)
    assert load([tmp_path])[0].remarks == ()


def test_one_unreadable_rank_does_not_hide_the_others(tmp_path: Path) -> None:
    write(tmp_path, 0, 2)
    (tmp_path / "rank1.jsonl").write_text("")
    (record,) = load([tmp_path])
    assert "not read: " in record.remarks[0] and "rank1.jsonl: empty" in record.remarks[0]
    assert record.remarks[1].startswith("no record of rank 1 of 2")
    with pytest.raises(UnreadableRecord, match="empty"):
        load([tmp_path, tmp_path / "rank1.jsonl"])


def test_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "rank0.jsonl").write_text("hello\n")
    with pytest.raises(UnreadableRecord, match="not a record"):
        load([tmp_path])
    with pytest.raises(UnreadableRecord, match="no record was named"):
        load([])
    with pytest.raises(UnreadableRecord, match="no such file"):
        load([tmp_path / "nowhere"])


def test_a_folder_without_records_gives_a_hint(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableRecord, match=r"no record in it \(rank0.jsonl is not there\)"):
        load([tmp_path / "empty"])
    for name in ("20270115-1", "20270115-2"):
        write(tmp_path / "runs" / name, 0)
    (tmp_path / "runs" / "20270115-2" / "sub").mkdir()
    with pytest.raises(UnreadableRecord, match=r"holds 2 runs, name one; the last is .*115-2$"):
        load([tmp_path / "runs"])


def test_an_earlier_run_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, 0)
    write(tmp_path / "earlier-1", 0, run_id="before")
    assert len(load([tmp_path])) == 1


def test_what_this_process_has_in_memory_stands_in_for_its_file(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)
    own = Writer(None, {"rank": 0, "world": 2, "run_id": "r"})
    own.event("loop.loss", {"values": [1.0]})
    (tmp_path / "rank0.jsonl").write_text("")  # the disk was full
    first, second = load([tmp_path], own.record())
    assert first.events == own.record().events and second.rank == 1
    (tmp_path / "empty").mkdir()
    assert load([tmp_path / "empty"], own.record())[0].rank == 0
