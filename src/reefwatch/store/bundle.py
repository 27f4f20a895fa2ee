"""A reference on disk, safe to receive from strangers.

A folder with `reference.json` (what it is, and size and SHA-256 of the other two), `rows.jsonl`
(one sketch per line) and `tensors.safetensors`. JSON and raw bytes; nothing is pickled. Sizes are
checked against the files before anything is read, shapes and offsets before anything is allocated.
The tensors' layout is the public one of https://github.com/huggingface/safetensors (format).
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import shutil
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UnreadableRecord, UsageError
from reefwatch.measure.sketches import packed, unpacked
from reefwatch.store.scan import why

SCHEMA = 1
HEAD, ROWS, TENSORS = "reference.json", "rows.jsonl", "tensors.safetensors"
MOST_HEADER = 100 << 20
"""Bytes of a tensors' header, as the format allows."""
MOST_ROW = 1 << 20
MOST_SIZE = 64 << 30
"""Bytes of a bundle that is read without being asked to."""
_SIZES = {
    "F64": ("f64", 8), "F32": ("f32", 4), "F16": ("f16", 2), "BF16": ("bf16", 2),
    "F8_E4M3": ("f8e4m3", 1), "F8_E5M2": ("f8e5m2", 1), "I64": ("i64", 8), "I32": ("i32", 4),
    "I16": ("i16", 2), "I8": ("i8", 1), "U8": ("u8", 1), "BOOL": ("bool", 1),
}  # fmt: skip
_NAMES = {name: word for word, (name, _) in _SIZES.items()}


class BundleWriter:
    """Writes a bundle beside its place, and moves it there when it is whole. A ReferenceWriter."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Raises UsageError when `folder` exists and is no bundle."""
        if folder.exists() and not (folder / HEAD).is_file() and any(folder.iterdir()):
            raise UsageError(f"{folder} is there and is no reference: give another place")
        self.folder = folder
        self._new = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        self._about = dict(about)
        self._files: tuple[Any, Any] | None = None
        self._where: dict[str, dict[str, Any]] = {}
        self.rows = 0

    def _open(self) -> tuple[Any, Any]:
        """The files of rows and of raw bytes; made when there is something to write."""
        if self._files is None:
            _sweep(self.folder)
            self._new.mkdir(parents=True, exist_ok=True)
            rows = open(self._new / ROWS, "w", encoding="utf-8")  # noqa: SIM115
            raw = open(self._new / "raw", "wb")  # noqa: SIM115
            self._files = rows, raw
        return self._files

    def discard(self) -> None:
        """Leave nothing: what is at the place stays as it is."""
        if self._files is not None:
            for file in self._files:
                file.close()
            shutil.rmtree(self._new, ignore_errors=True)
            self._files = None

    def about(self, **more: Any) -> None:
        """Add to what the head says."""
        self._about.update(more)

    def row(self, data: Mapping[str, Any]) -> None:
        if data.get("sketch") is not None:
            data = {**data, "sketch": packed(data["sketch"])}
        self._open()[0].write(json.dumps(data, separators=(",", ":"), allow_nan=True) + "\n")
        self.rows += 1

    def tensor(self, name: str, raw: bytes, dtype: str, shape: tuple[int, ...]) -> None:
        """Keep one tensor. Raises ValueError for a dtype that the format has no word for."""
        if dtype not in _NAMES:
            raise ValueError(f"a {dtype} tensor cannot be kept in a reference")
        file = self._open()[1]
        begin = file.tell()
        file.write(raw)
        where = {"dtype": _NAMES[dtype], "shape": list(shape)}
        self._where[name] = {**where, "data_offsets": [begin, begin + len(raw)]}

    def close(self) -> None:
        """Finish: all or nothing."""
        for file in self._open():
            file.close()
        header = json.dumps(self._where, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        with open(self._new / TENSORS, "wb") as out, open(self._new / "raw", "rb") as raw:
            out.write(struct.pack("<Q", len(header)) + header)
            while piece := raw.read(1 << 20):
                out.write(piece)
        os.unlink(self._new / "raw")
        files = {
            name: {"bytes": (self._new / name).stat().st_size, "sha256": _digest(self._new / name)}
            for name in (ROWS, TENSORS)
        }
        head = {"reference": SCHEMA, **self._about, "rows": self.rows, "files": files}
        (self._new / HEAD).write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")
        if self.folder.exists():
            for name in (HEAD, ROWS, TENSORS):
                (self.folder / name).unlink(missing_ok=True)
            for name in (ROWS, TENSORS, HEAD):
                os.replace(self._new / name, self.folder / name)
            self._new.rmdir()
        else:
            os.replace(self._new, self.folder)


def _sweep(folder: Path) -> None:
    """Remove what writers left beside the place that were killed before they were done."""
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*.part"):
        number = left.name.rpartition(".part")[0].rpartition(".")[2]
        if number.isdigit() and not Path("/proc", number).exists():
            shutil.rmtree(left, ignore_errors=True)


class Bundle:
    """A bundle that was checked. A ReferenceReader. Raises UnreadableRecord, one line each."""

    def __init__(self, folder: Path, most: int = MOST_SIZE) -> None:
        self.folder = folder
        self.head = _head(folder)
        total = sum(file["bytes"] for file in self.head["files"].values())
        if total > most:
            raise UnreadableRecord(f"{folder}: {total} bytes, more than --max-size {most}")
        for name, file in self.head["files"].items():
            _same(folder / name, file)
        self._where, self._start = _header(folder / TENSORS)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        with open(self.folder / ROWS, encoding="utf-8", errors="strict") as lines:
            for number, line in enumerate(lines, 1):
                if len(line) > MOST_ROW:
                    raise UnreadableRecord(f"{self.folder / ROWS}: line {number} is too long")
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                row = _row(row)
                if row is None:
                    raise UnreadableRecord(f"{self.folder / ROWS}: line {number} is no row")
                yield row

    def names(self) -> tuple[str, ...]:
        return tuple(self._where)

    def tensor(self, name: str) -> tuple[bytes, str, tuple[int, ...]] | None:
        """(bytes, dtype name, shape); None when there is no such tensor."""
        return _tensor(self.folder / TENSORS, self._start, self._where, name)


class Tensors:
    """A lone safetensors file that was checked. Raises UnreadableRecord, one line each."""

    def __init__(self, path: Path, most: int = MOST_SIZE) -> None:
        self.path = path
        try:
            size = path.stat().st_size
            if not path.is_file():
                raise UnreadableRecord(f"{path}: is no plain file")
            if size > most:
                raise UnreadableRecord(f"{path}: {size} bytes, more than --max-size {most}")
            self._where, self._start = _header(path)
        except OSError as error:
            raise UnreadableRecord(f"{path}: {why(error)}") from None

    def names(self) -> tuple[str, ...]:
        return tuple(self._where)

    def tensor(self, name: str) -> tuple[bytes, str, tuple[int, ...]] | None:
        """(bytes, dtype name, shape); None when there is no such tensor."""
        return _tensor(self.path, self._start, self._where, name)


def _tensor(
    path: Path, start: int, entries: Mapping[str, Any], name: str
) -> tuple[bytes, str, tuple[int, ...]] | None:
    where = entries.get(name)
    if where is None:
        return None
    begin, end = where["data_offsets"]
    with open(path, "rb") as file:
        file.seek(start + begin)
        raw = file.read(end - begin)
    if len(raw) != end - begin:
        raise UnreadableRecord(f"{path}: cut short within {name!r}")
    return raw, _SIZES[where["dtype"]][0], tuple(where["shape"])


def _row(row: Any) -> Any:
    """A row with its sketch unpacked; None when it is none."""
    if not isinstance(row, dict):
        return None
    if row.get("sketch") is None:
        return row
    try:
        return {**row, "sketch": unpacked(row["sketch"])}
    except (ValueError, TypeError, AttributeError):
        return None


def _head(folder: Path) -> dict[str, Any]:
    path = folder / HEAD
    try:
        if path.stat().st_size > MOST_ROW:
            raise UnreadableRecord(f"{path}: too large for what it is")
        head = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableRecord(f"{folder} is no reference: {why(error)}") from None
    except (ValueError, RecursionError):
        raise UnreadableRecord(f"{path}: not JSON") from None
    if not isinstance(head, dict) or not isinstance(head.get("reference"), int):
        raise UnreadableRecord(f"{path}: not the head of a reference")
    if head["reference"] > SCHEMA:
        raise UnreadableRecord(f"{path}: of schema {head['reference']}, newer than {SCHEMA}")
    files: Any = head.get("files")
    whole = isinstance(files, dict) and set(files) == {ROWS, TENSORS}
    if not whole or not all(_entry(file) for file in files.values()):
        raise UnreadableRecord(f"{path}: does not name its two files")
    return head


def _entry(file: Any) -> bool:
    return (
        isinstance(file, dict)
        and type(file.get("bytes")) is int
        and file["bytes"] >= 0
        and isinstance(file.get("sha256"), str)
    )


def _same(path: Path, file: Mapping[str, Any]) -> None:
    try:
        if path.is_symlink() or not path.is_file():
            raise UnreadableRecord(f"{path}: is no plain file")
        size = path.stat().st_size
        if size != file["bytes"]:
            raise UnreadableRecord(f"{path}: {size} bytes where {file['bytes']} were written")
        if _digest(path) != file["sha256"]:
            raise UnreadableRecord(f"{path}: not the bytes that were written")
    except OSError as error:
        raise UnreadableRecord(f"{path}: {why(error)}") from None


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """(where each tensor lies, where their bytes begin); every number checked."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        first = file.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else -1
        if not 0 <= length <= min(MOST_HEADER, size - 8):
            raise UnreadableRecord(f"{path}: a header of {length} bytes in a file of {size}")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise UnreadableRecord(f"{path}: its header is not JSON") from None
    if not isinstance(header, dict):
        raise UnreadableRecord(f"{path}: its header is no table")
    header.pop("__metadata__", None)
    room = size - 8 - length
    for name, where in header.items():
        if not _fits(where, room):
            raise UnreadableRecord(f"{path}: the entry of {name[:80]!r} does not fit the file")
    return header, 8 + length


def _fits(where: Any, room: int) -> bool:
    if not isinstance(where, dict) or where.get("dtype") not in _SIZES:
        return False
    shape, offsets = where.get("shape"), where.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        return False
    if len(shape) > 64 or any(type(n) is not int or n < 0 for n in (*shape, *offsets)):
        return False
    begin, end = offsets
    return (
        bool(begin <= end <= room) and end - begin == math.prod(shape) * _SIZES[where["dtype"]][1]
    )


def _digest(path: Path) -> str:
    made = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            made.update(piece)
    return made.hexdigest()
