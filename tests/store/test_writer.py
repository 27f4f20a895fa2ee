"""A writer loses nothing that it has taken, and never stands in the way of the run."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reefwatch.core.fact import Evidence
from reefwatch.core.ports import Sink
from reefwatch.store import writer as module
from reefwatch.store.reader import read
from reefwatch.store.writer import Writer

HEADER = {"rank": 0, "world": 1, "run_id": "r", "host": "node17"}


def child(code: str, folder: Path, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **more,  # type: ignore[call-overload]
    )


START = """
    import os, sys
    from pathlib import Path
    from reefwatch.store.writer import Writer
    writer = Writer(Path(sys.argv[1]), {"rank": 0})
"""


def test_it_is_a_sink(tmp_path: Path) -> None:
    sink: Sink = Writer(tmp_path, HEADER)
    sink.event("a", {})
    assert (tmp_path / "rank0.jsonl").exists()


def test_a_killed_process_loses_no_line(tmp_path: Path) -> None:
    code = (
        START
        + """
    for step in range(500):
        writer.event("step", {"seconds": 0.5}, step=step)
    os.kill(os.getpid(), 9)
    """
    )
    assert child(code, tmp_path).returncode == -signal.SIGKILL
    record = read(tmp_path / "rank0.jsonl")
    assert len(record.events) == 500
    assert not record.complete and "no end line" in record.remarks[0]


def test_a_limit_on_the_file_ends_it_and_the_run_goes_on(tmp_path: Path) -> None:
    """RLIMIT_FSIZE fails a write in the middle of a line, as a full disk does."""
    code = (
        START
        + """
    for step in range(500):
        writer.event("step", {"seconds": 0.5}, step=step)
    writer.close()
    record = writer.record()
    print(len(record.events), record.complete, len(record.remarks), record.remarks[0])
    """
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4100, 4100))

    done = child(code, tmp_path, preexec_fn=limit)
    assert done.stderr == ""
    assert done.stdout.startswith("500 True 1 ")
    assert "ends early (file too large): the rest is in memory only" in done.stdout
    record = read(tmp_path / "rank0.jsonl")
    assert 10 < len(record.events) < 500
    assert not record.complete and "cut short" in record.remarks[0]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path, HEADER)
    writer.event("a", {"n": 1})

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_write", full)
    writer.event("a", {"n": 2})
    writer.tensor("w", b"1234", "f32", (1,))
    monkeypatch.undo()
    writer.event("a", {"n": 3})
    writer.close()
    record = writer.record()
    assert [event.data["n"] for event in record.events] == [1, 2, 3]
    assert len(record.remarks) == 2
    assert "no space left on device" in " ".join(record.remarks)
    assert [event.data["n"] for event in read(tmp_path / "rank0.jsonl").events] == [1]


def test_short_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_write", lambda fd, raw: os.write(fd, bytes(raw)[:7]))
    writer = Writer(tmp_path, HEADER)
    writer.event("a", {"n": 1})
    writer.tensor("w", bytes(range(100)), "u8", (100,))
    writer.close()
    record = read(tmp_path / "rank0.jsonl")
    assert record.complete and not record.remarks
    assert (tmp_path / "rank0.tensors").read_bytes() == bytes(range(100))


@pytest.mark.parametrize("taken", [0, 5, 10**6])
def test_an_interrupt_within_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """Ctrl-C when none, some or all of a line's bytes have reached the file."""
    writer = Writer(tmp_path, HEADER)

    def interrupted(fd: int, raw: bytes) -> int:
        os.write(fd, raw[:taken])
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.event("a", {"n": 1})
    monkeypatch.undo()
    writer.event("a", {"n": 2})
    writer.close()
    record = read(tmp_path / "rank0.jsonl")
    assert record.complete and record.remarks == ()
    assert [event.data["n"] for event in record.events] == [1, 2]


def test_an_interrupt_between_any_two_lines_of_the_writer(tmp_path: Path) -> None:
    """Raise at the n-th traced line of an `event` call, for every n: no line is lost or doubled."""
    at = 0
    while True:
        folder = tmp_path / str(at)
        writer = Writer(folder, HEADER)
        left = at

        def trace(frame: object, event: str, _: object) -> Callable[..., object]:
            nonlocal left
            if event == "line" and frame.f_code.co_filename == module.__file__:  # type: ignore[attr-defined]
                if left == 0:
                    left = -1
                    raise KeyboardInterrupt
                left -= 1
            return trace

        old = sys.gettrace()
        sys.settrace(trace)  # type: ignore[arg-type]
        try:
            writer.event("a", {"n": 1})
            hit = False
        except KeyboardInterrupt:
            hit = True
        finally:
            sys.settrace(old)
        writer.event("a", {"n": 2})
        writer.close()
        record = read(folder / "rank0.jsonl")
        assert record.complete and record.remarks == (), at
        told = [event.data["n"] for event in record.events]
        assert told == [event.data["n"] for event in writer.record().events]
        assert told in ([1, 2], [2]), at  # [2]: interrupted before it was taken
        if not hit:
            break
        at += 1
    assert at > 20


def test_a_signal_handler_within_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path, HEADER)
    entered = []

    def reentering(fd: int, raw: bytes) -> int:
        if not entered:
            entered.append(1)
            writer.event("b", {"from": "the handler"})
        return os.write(fd, raw)

    monkeypatch.setattr(module, "_write", reentering)
    writer.event("a", {"from": "the run"})
    writer.close()
    record = read(tmp_path / "rank0.jsonl")
    assert [event.kind for event in record.events] == ["a", "b"]
    assert record.complete and record.remarks == ()


def test_threads(tmp_path: Path) -> None:
    writer = Writer(tmp_path, HEADER)

    def work(name: str) -> None:
        for n in range(300):
            writer.event(name, {"n": n})
            writer.fact(name, Evidence(name, n))

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(str(n),)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    finally:
        sys.setswitchinterval(old)
    writer.close()
    record = read(tmp_path / "rank0.jsonl")
    assert record.complete and record.remarks == ()
    for name in map(str, range(6)):
        assert [e.data["n"] for e in record.events if e.kind == name] == list(range(300))
        assert record.facts[name] == Evidence(name, 299)


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    code = (
        START
        + """
    writer.event("parent", {})
    pid = os.fork()
    if pid == 0:
        os.getpid = lambda: 1  # a script may mock it; the writer kept the original
        writer.event("child", {})
        writer.tensor("child", b"1", "u8", (1,))
        writer.remark("child")
        writer.close()
        os._exit(0)
    os.waitpid(pid, 0)
    writer.event("parent", {})
    writer.close()
    """
    )
    done = child(code, tmp_path)
    assert done.returncode == 0, done.stderr
    record = read(tmp_path / "rank0.jsonl")
    assert [event.kind for event in record.events] == ["parent", "parent"]
    assert record.complete and record.remarks == ()
    assert not (tmp_path / "rank0.tensors").exists()


def test_a_script_that_mocks_os_does_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path, HEADER)
    for name in ("write", "open", "fsync", "close", "fstat", "getpid", "lseek"):
        monkeypatch.setattr(os, name, lambda *_: 1 / 0)
    writer.event("a", {})
    writer.tensor("w", b"12", "u8", (2,))
    writer.close()
    monkeypatch.undo()
    assert read(tmp_path / "rank0.jsonl").complete


def test_a_folder_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    spare = tmp_path / "tmp"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    writer = Writer(tmp_path / "file" / "run", HEADER, scrub=False)
    writer.event("a", {})
    writer.close()
    assert writer.path is not None and writer.path.is_relative_to(spare)
    record = read(writer.path)
    assert record == writer.record()
    assert record.complete and len(record.events) == 1
    assert "could not be written (not a directory): the record is in " in record.remarks[0]


def test_nowhere_to_write_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(module, "_open", read_only)
    writer = Writer(tmp_path / "run", HEADER)
    writer.event("a", {})
    writer.tensor("w", b"1", "u8", (1,))
    writer.close()
    assert writer.path is None
    record = writer.record()
    assert len(record.events) == 1 and record.complete
    assert "(read-only file system): the record was kept in memory only" in record.remarks[0]
    assert "tensors are not kept" in record.remarks[1]


def test_an_earlier_record_is_never_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = Writer(tmp_path / "run", HEADER)
    first.close()
    before = (tmp_path / "run" / "rank0.jsonl").read_bytes()
    second = Writer(tmp_path / "run", HEADER)
    second.close()
    assert (tmp_path / "run" / "rank0.jsonl").read_bytes() == before
    assert second.path != first.path
    assert "holds an earlier record" in second.record().remarks[0]


def test_a_deleted_folder_is_told(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", HEADER)
    (tmp_path / "run" / "rank0.jsonl").unlink()
    (tmp_path / "run").rmdir()
    writer.event("a", {})
    writer.close()
    assert len(writer.record().events) == 1
    assert "was deleted while the run went on" in writer.record().remarks[0]


def test_after_the_end_nothing_is_taken(tmp_path: Path) -> None:
    writer = Writer(tmp_path, HEADER)
    writer.close()
    writer.event("late", {})
    writer.close(complete=False)
    record = read(tmp_path / "rank0.jsonl")
    assert record.complete and record.events == () and record.remarks == ()


def test_a_line_too_long_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefwatch.store.lines.LONGEST", 1000)
    writer = Writer(tmp_path, HEADER)
    writer.event("big", {"values": list(range(1000))})
    writer.close()
    record = read(tmp_path / "rank0.jsonl")
    assert record.events == () and record.complete
    assert record.remarks == ("big: 0 MiB were left out",)


def test_the_header_is_scrubbed(tmp_path: Path) -> None:
    header = {**HEADER, "argv": ["train.py", "--token", "abc"], "cwd": os.path.expanduser("~/x")}
    Writer(tmp_path, header).close()
    record = read(tmp_path / "rank0.jsonl")
    assert record.header["host"] == "<host>"
    assert record.header["argv"] == ["train.py", "--token", "<secret>"]
    assert record.header["cwd"] == "~/x"
    assert b"node17" not in (tmp_path / "rank0.jsonl").read_bytes()


def test_scrubbing_can_be_left_out(tmp_path: Path) -> None:
    Writer(tmp_path, HEADER, scrub=False).close()
    assert read(tmp_path / "rank0.jsonl").header["host"] == "node17"
