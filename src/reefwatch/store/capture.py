"""A captured machine on disk: a folder or a tar file, scrubbed before it is written."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from reefwatch.core.errors import UsageError
from reefwatch.store.scrub import Scrubber

_MOST_BYTES = 256 << 20
_MOST_FILES = 50_000
_T = TypeVar("_T")


def write(path: Path, entries: Mapping[str, bytes | str], scrubber: Scrubber) -> int:
    """Write what was read (path -> bytes, or `-> target`); how many files. Raises UsageError.

    A name that ends in .tar, .tar.gz or .tgz is a tar file, any other a folder; neither may exist.
    """
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already: give another name")
    clean = {name: _clean(name, content, scrubber) for name, content in entries.items()}
    folders = {str(parent) for name in clean for parent in PurePosixPath(name).parents}
    files = {name: content for name, content in clean.items() if name not in folders}
    try:
        if path.name.endswith((".tar", ".tar.gz", ".tgz")):
            _tar(path, files)
        else:
            _folder(path, files)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    return len(files)


def _clean(name: str, content: bytes | str, scrubber: Scrubber) -> bytes | str:
    if isinstance(content, str):
        return content
    if name.endswith(".json"):
        return _json(content, scrubber)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content if len(content) <= 4096 else b""
    return scrubber.text(text).encode()


def _json(content: bytes, scrubber: Scrubber) -> bytes:
    import json

    value = scrubber.value(json.loads(content))
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _folder(path: Path, files: Mapping[str, bytes | str]) -> None:
    path.mkdir(parents=True)
    for name, content in files.items():
        file = path / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            os.symlink(_relative(name, content), file)


def _tar(path: Path, files: Mapping[str, bytes | str]) -> None:
    mode: Any = "w" if path.name.endswith(".tar") else "w:gz"
    with tarfile.open(path, mode) as tar:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(name.lstrip("/"))
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = tarfile.SYMTYPE, _relative(name, content)
                tar.addfile(info)


def _relative(name: str, content: str) -> str:
    """`-> /sys/devices/x` as a link that stays in the capture, wherever it lies."""
    target = content.removeprefix("-> ")
    return os.path.relpath(target, os.path.dirname(name))


@contextmanager
def opened(path: Path, make: Callable[[Path], _T]) -> Iterator[_T]:
    """A captured machine in a tar file, unpacked to a temporary folder. Raises UsageError.

    Only plain files and links are unpacked, and nothing outside the folder is written or read.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix="reefwatch-") as made:
        folder = Path(made)
        try:
            with tarfile.open(path) as tar:
                _unpack(tar, folder)
        except (tarfile.TarError, EOFError, OSError) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(":")
            raise UsageError(f"{path} is no captured machine: {why[:200]}") from None
        yield make(_inner(folder))


def _unpack(tar: tarfile.TarFile, folder: Path) -> None:
    total = 0
    for number, member in enumerate(tar):
        if number >= _MOST_FILES:
            raise UsageError(f"the capture holds more than {_MOST_FILES} files")
        parts = PurePosixPath(member.name).parts
        inside = folder.joinpath(*(part for part in parts if part not in ("/", "..", ".")))
        if inside == folder or not _real(inside, folder):
            continue
        try:
            inside.parent.mkdir(parents=True, exist_ok=True)
            if member.isfile():
                total += member.size
                if total > _MOST_BYTES:
                    raise UsageError("the capture holds more than 256 MiB")
                source = tar.extractfile(member)
                inside.write_bytes(source.read() if source else b"")
            elif member.issym():
                os.symlink(member.linkname, inside)
        except (OSError, ValueError):
            continue  # one name that cannot be made does not end the replay


def _real(inside: Path, folder: Path) -> bool:
    """Whether the folder that an entry goes to is inside, also by the links made before."""
    home = os.path.realpath(folder)
    return os.path.realpath(inside.parent).startswith(home) and not inside.is_symlink()


def _inner(folder: Path) -> Path:
    """The folder that holds sys/, where the archive has one folder around it."""
    names = list(folder.iterdir())
    if len(names) == 1 and names[0].is_dir() and names[0].name not in ("sys", "proc"):
        return names[0]
    return folder
