"""Write what one process sees to its file, line by line, and keep the latest of it in memory.

Every line goes to the operating system at once, so that a killed process loses nothing that was
said. Nothing here raises for a disk: the file keeps what it has, one remark tells why it ends
there, and the record goes on in memory. A forked child writes nothing.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple
from zlib import crc32

from reefwatch.core.fact import Fact, Grade, Unknown
from reefwatch.core.record import Record
from reefwatch.store import lines
from reefwatch.store.assembly import assemble
from reefwatch.store.scrub import HOST, Scrubber

# Kept before the script that is watched could mock them.
_getpid, _open, _write, _close = os.getpid, os.open, os.write, os.close
_fsync, _fstat, _lseek, _mkdir = os.fsync, os.fstat, os.lseek, os.makedirs
_stat = os.stat
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_PATIENCE = 5.0
"""Seconds that the end of a run waits for another thread's write."""


class _At(NamedTuple):
    """Where the file stands. One value, so that an interrupt sees all of it change or nothing."""

    number: int = 0
    chain: int = 0
    size: int = 0
    payload: str = ""
    """What was written last, or is being written."""
    line: bytes = b""
    """Its bytes while it is being written."""


class Writer:
    """The Sink of one process, and its Record at any moment.

    `folder` None keeps everything in memory. `schema` is added to the header.
    """

    def __init__(
        self, folder: Path | None, header: Mapping[str, Any], scrub: bool | Scrubber = True
    ) -> None:
        self._pid = _getpid()
        self._scrubber = Scrubber.here() if scrub is True else scrub or None
        self._lock = RLock()
        self._writing = False
        self._queue: deque[tuple[object, str]] = deque()
        self._kept: dict[object, str] = {}
        self._said: list[str] = []
        self._at = _At()
        self._closed = False
        self._complete = True
        self._fd: int | None = None
        self._tensors: int | None = None
        self._tensors_lost = False
        self.rank = int(header.get("rank", 0))
        self.path: Path | None = None
        """The file; None when the record is in memory only."""
        if folder is not None:
            self._begin(folder)
        head = {"schema": lines.SCHEMA, **{k: v for k, v in header.items() if k != "schema"}}
        if self._scrubber and head.get("host"):
            head["host"] = HOST
        self._put("header", head)
        while self._said:
            self.remark(self._said.pop(0))

    def fact(self, name: str, fact: Fact) -> None:
        """Take a fact; the last one of a name wins."""
        row: dict[str, Any] = {"fact": name}
        if isinstance(fact, Unknown):
            row["unknown"] = fact.reason
        else:
            row["value"] = fact.value
            if fact.name != name:
                row["name"] = fact.name
            if fact.unit:
                row["unit"] = fact.unit
            if fact.source:
                row["source"] = fact.source
            if fact.grade is not Grade.MEASURED:
                row["grade"] = fact.grade.value
        self._put(("fact", name), row)

    def event(
        self, kind: str, data: Mapping[str, Any], *, step: int | None = None, id: str | None = None
    ) -> None:
        """Take an event; with an `id` it replaces the earlier one of that kind and id."""
        row: dict[str, Any] = {"event": kind}
        if step is not None:
            row["step"] = step
        if id is not None:
            row["id"] = id
        row["data"] = data
        self._put(object() if id is None else ("event", kind, id), row)

    def tensor(self, name: str, raw: bytes, dtype: str, shape: tuple[int, ...]) -> None:
        """Append a tensor's bytes to `rank<N>.tensors`; the last one of a name wins."""
        if _getpid() != self._pid or self._closed or self._tensors_lost:
            return
        try:
            offset = self._append(memoryview(raw).cast("B"))
        except (OSError, TypeError) as error:
            self._tensors_lost = True
            self.remark(f"tensors are not kept from here on: {_why(error)}")
            return
        where = {"name": name, "dtype": dtype, "shape": list(shape), "offset": offset}
        where |= {"nbytes": memoryview(raw).nbytes, "crc": f"{crc32(raw):08x}"}
        self.event("tensor", where, id=name)

    def remark(self, text: str) -> None:
        """Say something about the record itself."""
        self._put(object(), {"remark": text})

    def record(self) -> Record:
        """What was seen so far, as it would be read from the file."""
        self._drain()
        rows = (lines.decode(payload) for payload in list(self._kept.values()))
        record = assemble(rows)
        said = (self._scrubber.text(text) if self._scrubber else text for text in self._said)
        remarks = tuple(dict.fromkeys((*record.remarks, *said)))
        return replace(record, complete=self._complete, remarks=remarks)

    def close(self, complete: bool = True) -> None:
        """Write the end line and see the file safely to the disk. A second call does nothing."""
        if _getpid() != self._pid or self._closed:
            return
        self._complete = complete
        self._put("end", {"end": True, "complete": complete})
        self._closed = True
        if not self._lock.acquire(timeout=_PATIENCE):
            self._said.append("the end line was not written: another thread was still writing")
            return
        try:
            self._write_queue()
            for fd in (self._fd, self._tensors):
                if fd is not None:
                    self._settle(fd)
            self._fd = self._tensors = None
        finally:
            self._lock.release()

    def _begin(self, folder: Path) -> None:
        """Open `rank<N>.jsonl` in the folder, else in a temporary one, else nowhere; say so."""
        name = f"rank{self.rank}.jsonl"
        try:
            self._fd, self.path = _fresh(folder / name), folder / name
            return
        except (OSError, ValueError) as error:
            failed = f"{folder / name} could not be written ({_why(error)})"
        try:
            spare = Path(tempfile.mkdtemp(prefix="reefwatch-"))
            self._fd, self.path = _fresh(spare / name), spare / name
            self._said.append(f"{failed}: the record is in {spare}")
        except OSError:
            self._said.append(f"{failed}: the record was kept in memory only")

    def _put(self, key: object, row: dict[str, Any]) -> None:
        """Encode now, while the caller's values are what they are, and write."""
        if _getpid() != self._pid or self._closed:
            return
        payload = lines.encode(row)
        if self._scrubber is not None:
            payload = self._scrubber.json(payload)
        if len(payload) > lines.LONGEST - 100:
            what = row.get("event") or row.get("fact") or "a remark"
            key = object()
            payload = lines.encode({"remark": f"{what}: {len(payload) >> 20} MiB were left out"})
        self._queue.append((key, payload))
        self._drain()

    def _drain(self) -> None:
        """Write the queue, in order, by one thread at a time.

        Nobody waits: a thread that finds the lock taken leaves its line to the holder, which looks
        again after letting go. So does a signal handler or a finalizer that comes here in the
        middle of a write; waiting, it would hang. Its thread may take the lock once more, so that
        an interrupt just after the taking does not lock out the thread that it hit.
        """
        while self._queue and self._lock.acquire(blocking=False):
            try:
                if self._writing and self._interrupted():
                    return
                self._writing = True
                self._write_queue()
                self._writing = False
            finally:
                self._lock.release()

    def _interrupted(self) -> bool:
        """True when this thread is in the middle of writing the queue, further up its stack."""
        frame = sys._getframe()
        while above := frame.f_back:
            if above.f_code is Writer._write_queue.__code__ and above.f_locals["self"] is self:
                return True
            frame = above
        return False

    def _write_queue(self) -> None:
        # An interrupt may come between any two bytecodes: a line is taken off the queue last, and
        # every act before that may be done again.
        while self._queue:
            key, payload = self._queue[0]
            if self._kept.get(key) != payload:
                if self._fd is not None and "end" not in self._kept:
                    self._write_line(self._fd, payload)
                self._kept[key] = payload
            self._queue.popleft()

    def _write_line(self, fd: int, payload: str) -> None:
        at = self._at
        try:
            if at.payload is not payload:
                line, chain = lines.seal(payload, at.number + 1, at.chain)
                at = self._at = _At(at.number + 1, chain, at.size + len(line), payload, line)
                left = len(line) - _write(fd, line)
            else:  # an interrupt came while this line was being written
                left = at.size - _fstat(fd).st_size if at.line else 0
            while left > 0:
                left -= _write(fd, at.line[-left:])
            self._at = at._replace(line=b"")
        except OSError as error:
            self._fd = None
            self._said.append(f"{self.path} ends early ({_why(error)}): the rest is in memory only")
            _shut(fd)

    def _append(self, raw: memoryview) -> int:
        """Write a tensor's bytes; the offset at which they begin."""
        if self.path is None or self._fd is None:
            raise OSError(errno.ENOENT, "there is no file")
        if self._tensors is None:
            self._tensors = _open(self.path.with_suffix(".tensors"), _FLAGS, 0o644)
        offset = _lseek(self._tensors, 0, os.SEEK_END)
        while raw:
            raw = raw[_write(self._tensors, raw[: 2**30]) :]
        return offset

    def _settle(self, fd: int) -> None:
        try:
            if fd == self._fd and not self._in_place(fd):
                fd = self._anew(fd)
            _fsync(fd)
        except OSError as error:
            self._said.append(f"{self.path} may not be safe on the disk: {_why(error)}")
        _shut(fd)

    def _in_place(self, fd: int) -> bool:
        """True when the file that was written to is still found by its name."""
        try:
            there, here = _stat(str(self.path)), _fstat(fd)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def _anew(self, fd: int) -> int:
        """Write the file, which was deleted or moved meanwhile, once more; its descriptor."""
        what = "moved" if _fstat(fd).st_nlink else "deleted"
        said = f"{self.path} was {what} while the run went on"
        try:
            assert self.path is not None
            again = _fresh(self.path)
        except OSError:
            self._said.append(said)
            return fd
        _shut(fd)
        self._said.append(f"{said}, and was written again at its end")
        rows = [payload for key, payload in self._kept.items() if key != "end"]
        chain = 0
        for number, payload in enumerate(
            (*rows, lines.encode({"remark": self._said[-1]}), self._kept["end"]), 1
        ):
            line, chain = lines.seal(payload, number, chain)
            while line:
                line = line[_write(again, line) :]
        return again


def _fresh(path: Path) -> int:
    """A descriptor of a new or empty file. Raises OSError."""
    _mkdir(path.parent, exist_ok=True)
    fd = _open(path, _FLAGS, 0o644)
    if _fstat(fd).st_size:
        _close(fd)
        raise FileExistsError(errno.EEXIST, "it holds an earlier record")
    return fd


def _shut(fd: int) -> None:
    try:
        _close(fd)
    except OSError:
        return  # the kernel says here what it could not write; there is nothing left to do


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
