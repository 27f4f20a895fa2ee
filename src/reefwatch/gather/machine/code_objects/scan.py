"""Which GPU targets a file, a wheel or a folder carries. Nothing is loaded, run or unpacked."""

from __future__ import annotations

import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from reefwatch.gather.machine.code_objects import databases, elf
from reefwatch.gather.machine.code_objects.parts import (
    BUNDLE,
    COMPRESSED,
    FATBIN,
    NO_CODE,
    Part,
    located,
    parts,
)
from reefwatch.gather.machine.code_objects.window import (
    LARGEST,
    FileWindow,
    Rereader,
    StreamWindow,
    Window,
    read_at,
)

_SECTIONS = {".hip_fatbin": "AMD", ".nv_fatbin": "NVIDIA", "__nv_relfatbin": "NVIDIA"}
_DATA = (".rodata", ".lrodata", ".data")
"""Where a library without such sections may hold code objects: those of Mojo do."""
_NOT_READ = {".llvm.offloading": "code that is not linked yet (.llvm.offloading)"}
_CODE = (".so", ".co", ".hsaco", ".hipfb", ".fatbin", ".cubin", ".pyd", ".o", ".ko")
_ELSEWHERE = (b"MZ", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How libraries of Windows and macOS begin."""
_LINKER_SCRIPT = re.compile(rb"\s*(?:/\*|INPUT|GROUP|OUTPUT_FORMAT)")
"""A text of the name of a library, which leads the linker to one."""
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
    unlisted: str = ""
    """Why the names of its files are not known; empty when they are."""

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
        made.unlisted = f"the zip cannot be read: {error}"
        made.unread.append((os.path.basename(path), made.unlisted))
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
        return _no_elf(head, whole, asked)
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
        elif section.name in _SECTIONS and section.size:
            room = max(0, min(section.size, size - section.offset))
            found += parts(FileWindow(handle, section.offset, room), True)
    return found + list(_not_seen(sections, size))


def _not_seen(sections: Iterable[elf.Section], size: int) -> Iterator[Part]:
    """What sections for GPU code hold and nobody can read."""
    for section in sections:
        if section.name in _NOT_READ:
            yield Part("unknown", unknown=_NOT_READ[section.name])
        elif section.name in _SECTIONS and section.offset + section.size > size:
            yield Part("unknown", unknown=f"the section {section.name} is cut off")


def _no_elf(head: bytes, whole: Window, asked: bool) -> list[Part] | str:
    """What is in a file that is no ELF file, or why it is not read.

    Libraries of other systems, which a folder may hold besides, are searched for the marks.
    """
    if head.startswith((BUNDLE, COMPRESSED, FATBIN)):
        return list(parts(whole, True))
    if not asked:
        if not head:
            return "it is empty"
        if head.startswith(_ELSEWHERE):
            return list(parts(whole, False))
        if _LINKER_SCRIPT.match(head):
            return []
        if head.startswith(b"version https://git-lfs"):
            return "it is a pointer of Git LFS, and not the file"
    return "it is no ELF file, no bundle of GPU code and no zip"


def _read_member(wheel: zipfile.ZipFile, member: zipfile.ZipInfo) -> list[Part] | str:
    """A member is read once, forward: the marks are searched, and then held against its sections,
    which stand at its end.
    """
    try:
        with wheel.open(member) as stream:
            return _of_stream(Rereader(stream), member.file_size)
    except elf.Malformed as error:
        return str(error)
    except NotImplementedError:
        return "it is packed in a way that is not known here"
    except _BROKEN_ZIP as error:
        return f"it cannot be unpacked: {error}"


def _of_stream(stream: Rereader, size: int) -> list[Part] | str:
    window = StreamWindow(stream, size)
    head = window.peek(64)
    if not head.startswith(elf.MAGIC):
        return _no_elf(head, window, False)
    if elf.machine(head) == elf.AMDGPU:
        return [Part("code object", (elf.target(head),))]
    found = list(located(window))
    sections = elf.sections(stream.again)
    marked = [part for _, _, part in found if not part.doubtful]
    for section in sections:
        if section.name in _SECTIONS and section.size:
            marked += _damaged(section, found, stream)
    return marked + list(_not_seen(sections, size))


def _damaged(
    section: elf.Section, found: Iterable[tuple[int, int, Part]], stream: Rereader
) -> Iterator[Part]:
    """What of a section for GPU code is not as it should be, by the marks that were found."""
    end, inside = section.offset + section.size, False
    for at, until, part in found:
        if section.offset <= at < end:
            inside = True
            if part.doubtful:
                yield part
            elif until > end:
                yield Part("unknown", unknown=f"the section {section.name} ends within a bundle")
    if not inside and stream.again(section.offset, min(section.size, LARGEST)).strip(b"\0"):
        yield Part("unknown", unknown=NO_CODE)
