"""Which GPU targets a file, a wheel or a folder carries. Nothing is loaded, run or unpacked."""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from reefwatch.gather.machine.code_objects import databases, elf
from reefwatch.gather.machine.code_objects.parts import BUNDLE, COMPRESSED, FATBIN, Part, parts
from reefwatch.gather.machine.code_objects.window import FileWindow, StreamWindow, Window, read_at

_SECTIONS = {".hip_fatbin": "AMD", ".nv_fatbin": "NVIDIA", "__nv_relfatbin": "NVIDIA"}
_DATA = (".rodata", ".lrodata", ".data")
"""Where a library without such sections may hold code objects: those of Mojo do."""
_NOT_READ = {".llvm.offloading": "code that is not linked yet (.llvm.offloading)"}
_CODE = (".so", ".co", ".hsaco", ".hipfb", ".fatbin", ".cubin", ".pyd", ".o", ".ko")
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)


@dataclass(frozen=True)
class Code:
    """The GPU code of one file. `targets` tells in how many of its `parts` each target is."""

    path: str
    package: str
    kinds: tuple[str, ...]
    parts: int
    targets: dict[str, int]
    unknown: tuple[str, ...] = ()


@dataclass
class Scan:
    """What a scan saw."""

    root: str
    kind: str
    looked: int = 0
    """Files that could hold GPU code, and were looked into."""
    codes: list[Code] = field(default_factory=list)
    databases: list[databases.Database] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    """(path, why)"""

    def plain(self) -> dict[str, Any]:
        """Of what JSON has."""
        return {
            "root": self.root,
            "kind": self.kind,
            "looked": self.looked,
            "with_code": len(self.codes),
            "unread": [list(row) for row in self.unread],
        }


Progress = Callable[[str, int, int], None]
"""(what, files done, files in all)"""


def scan(path: str, progress: Progress | None = None) -> Scan:
    """Look at a file, a wheel or other zip, or a folder. Raises OSError when it is not there.

    What cannot be read inside is told in `unread` or in `unknown`, never raised.
    """
    if os.path.isdir(path):
        return _folder(path, progress)
    with open(path, "rb") as file:
        head = file.read(4)
    if head in (b"PK\x03\x04", b"PK\x05\x06"):
        return _wheel(path, progress)
    made = Scan(path, "file", 1)
    name = os.path.basename(path)
    _add(made, name, name, _read_file(path, asked=True))
    made.databases = databases.group([(name, name)])
    return made


def _folder(root: str, progress: Progress | None) -> Scan:
    made = Scan(root, "folder")
    seen: set[tuple[int, int]] = set()
    every = sorted(_walk(root))
    wanted = [path for path in every if _may_hold_code(path)]
    for number, path in enumerate(wanted):
        if progress is not None:
            progress("reading", number, len(wanted))
        full = os.path.join(root, path)
        try:
            status = os.stat(full)
        except OSError as error:
            made.unread.append((path, error.strerror or str(error)))
            continue
        if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        made.looked += 1
        _add(made, path, _package(path, root), _read_file(full))
    made.databases = databases.group([(path, _package(path, root)) for path in every])
    return made


def _walk(root: str) -> Iterator[str]:
    for folder, inside, files in os.walk(root):
        inside[:] = sorted(name for name in inside if name not in ("__pycache__", ".git"))
        for name in files:
            yield os.path.relpath(os.path.join(folder, name), root)


def _wheel(path: str, progress: Progress | None) -> Scan:
    made = Scan(path, "wheel")
    try:
        with zipfile.ZipFile(path) as wheel:
            members = [one for one in wheel.infolist() if not one.is_dir()]
            wanted = [one for one in members if _may_hold_code(one.filename)]
            for number, one in enumerate(wanted):
                if progress is not None:
                    progress("reading", number, len(wanted))
                made.looked += 1
                _add(made, one.filename, _package(one.filename, ""), _read_member(wheel, one))
    except _BROKEN_ZIP as error:
        made.unread.append((os.path.basename(path), f"the zip cannot be read: {error}"))
        return made
    made.databases = databases.group([(m.filename, _package(m.filename, "")) for m in members])
    return made


def _may_hold_code(path: str) -> bool:
    name = os.path.basename(path)
    return name.endswith(_CODE) or ".so." in name


def _package(path: str, root: str) -> str:
    """The package that a file belongs to: the folder below site-packages, or the topmost one."""
    parts_ = path.replace(os.sep, "/").split("/")
    for number, part in enumerate(parts_[:-1]):
        if part in ("site-packages", "dist-packages"):
            parts_ = parts_[number + 1 :]
            break
    if len(parts_) > 1:
        return parts_[0].removesuffix(".libs")
    return os.path.basename(os.path.abspath(root)) if root else parts_[0].partition(".")[0]


def _add(made: Scan, path: str, package: str, found: Iterable[Part] | str) -> None:
    if isinstance(found, str):
        made.unread.append((path, found))
        return
    kinds: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for part in found:
        kinds[part.kind] += 1
        targets.update(set(part.targets))
        if part.unknown:
            unknown[part.unknown] += 1
    if kinds:
        ordered = dict(sorted(targets.items()))
        why = tuple(f"{words} ({n}x)" if n > 1 else words for words, n in unknown.items())
        made.codes.append(Code(path, package, tuple(sorted(kinds)), kinds.total(), ordered, why))


def _read_file(path: str, asked: bool = False) -> list[Part] | str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return error.strerror or str(error)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return "it is not a regular file"
        return _parts_of(handle, os.fstat(handle).st_size, asked)
    except OSError as error:
        return error.strerror or str(error)
    finally:
        os.close(handle)


def _parts_of(handle: int, size: int, asked: bool) -> list[Part] | str:
    head = read_at(handle, 0, 64)
    whole = FileWindow(handle, 0, size)
    if not head.startswith(elf.MAGIC):
        if head.startswith((BUNDLE, COMPRESSED, FATBIN)):
            return list(parts(whole, True))
        if asked:
            return "it is no ELF file, no bundle of GPU code and no zip"
        return "" if not head else []
    try:
        if elf.machine(head) == elf.AMDGPU:
            return [Part("code object", (elf.target(head),))]
        sections = elf.sections(lambda offset, count: read_at(handle, offset, count))
    except elf.Malformed as error:
        return str(error)
    if not sections:  # stripped of section headers: the marks are all there is
        return list(parts(whole, False))
    found: list[Part] = []
    embedded = not any(section.name in (*_SECTIONS, *_NOT_READ) for section in sections)
    for section in sections:
        if embedded and section.name.startswith(_DATA) and section.offset < size:
            room = min(section.size, size - section.offset)
            found += parts(FileWindow(handle, section.offset, room), False)
        elif section.name in _NOT_READ:
            found.append(Part("unknown", unknown=_NOT_READ[section.name]))
        elif section.name in _SECTIONS and section.size:
            room = max(0, min(section.size, size - section.offset))
            found += parts(FileWindow(handle, section.offset, room), True)
            if room < section.size:
                found.append(Part("unknown", unknown=f"the section {section.name} is cut off"))
    return found


def _read_member(wheel: zipfile.ZipFile, member: zipfile.ZipInfo) -> list[Part] | str:
    """A member is read once, forward: its sections stand at its end, so the marks are searched."""
    try:
        with wheel.open(member) as stream:
            window: Window = StreamWindow(stream, member.file_size)
            head = window.peek(64)
            if head.startswith(elf.MAGIC) and elf.machine(head) == elf.AMDGPU:
                return [Part("code object", (elf.target(head),))]
            sure = head.startswith((BUNDLE, COMPRESSED, FATBIN))
            return list(parts(window, sure))
    except elf.Malformed as error:
        return str(error)
    except NotImplementedError:
        return "it is packed in a way that is not known here"
    except _BROKEN_ZIP as error:
        return f"it cannot be unpacked: {error}"
