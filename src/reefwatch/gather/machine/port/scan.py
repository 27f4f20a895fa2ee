"""The walk over a code base: each file goes to the reader of its language."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reefwatch.gather.machine.port import native, plain, python
from reefwatch.gather.machine.port.places import Place

MOST_HITS = 200
"""Of one kind; more are counted."""
_MOST_BYTES = 2 << 20
_SKIPPED = frozenset(
    (
        ".git",
        ".hg",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        "site-packages",
        ".tox",
        "build",
    )
)
_PYTHON = (".py", ".pyi", ".pyx", ".ipynb")
_NATIVE = (
    *(".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".hip", ".inl"),
    *(".ipp", ".tpp", ".tcc"),
)
_SHELL = (".sh", ".bash", ".slurm", ".sbatch", ".yml", ".yaml", ".mk", ".dockerfile")
_REQUIRED = ("pyproject.toml", "setup.cfg", "Pipfile", "conda.yml", "conda.yaml")


@dataclass
class Found:
    """What a scan saw: hits, and how much was read."""

    hits: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0
    lines: int = 0
    unread: list[tuple[str, str]] = field(default_factory=list)
    """(file, why)"""
    guarded: int = 0
    """Places behind a test for ROCm, or an import that may fail: not told."""
    counts: dict[str, int] = field(default_factory=dict)


def scan(root: Path) -> Found:
    """Every place, in the order of the files. One that cannot be read is told in `unread`."""
    found = Found()
    ours = _packages(root)
    for path in _files(root):
        if path.is_dir():
            _hit(found, Place("ptx", 1, f"CUTLASS, as a copy in {path.name}/"), path, "")
            continue
        if not _is_read(path.name):
            continue
        text, why = _text(path)
        if why:
            found.unread.append((os.path.relpath(path, root), why))
            continue
        found.files += 1
        lines = text.splitlines()
        found.lines += len(lines)
        for place in places(path, text, ours):
            if place.guarded:
                found.guarded += 1
            else:
                line = lines[place.line - 1] if place.line <= len(lines) else ""
                _hit(found, place, path, line)
    return found


def places(path: Path, text: str, ours: frozenset[str]) -> Iterator[Place]:
    """The places of one file, guarded ones too; `ours` are modules of the code base itself."""
    name, suffix = path.name, path.suffix
    if suffix in (".cu", ".cuh"):
        yield Place("extension", 1, f"a CUDA source, {name}")
    if suffix in _PYTHON:
        read = python.cells if suffix == ".ipynb" else python.places
        told = read(text, name, ours)
        yield from plain.lost(text) if told is None else told
    elif suffix in _NATIVE:
        yield from native.places(text)
    elif _lists(name):
        yield from plain.requirements(text, name)
    elif name == "CMakeLists.txt" or suffix == ".cmake":
        yield from plain.cmake(text)
    elif _runs(name, suffix):
        yield from plain.shell(text)


def _lists(name: str) -> bool:
    """Whether a file lists requirements."""
    plain_text = name.endswith((".txt", ".in", ".yml", ".yaml"))
    start = (
        name.startswith(("requirements", "constraints", "environment")) or "requirements" in name
    )
    return name in _REQUIRED or (start and plain_text)


def _runs(name: str, suffix: str) -> bool:
    return suffix in _SHELL or name.startswith(("Dockerfile", "Containerfile", "Makefile"))


def _files(root: Path) -> Iterator[Path]:
    """Files to read, and folders that are a copy of CUTLASS."""
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED and not f.endswith(".egg-info"))
        if os.path.isfile(os.path.join(folder, "include", "cutlass", "cutlass.h")):
            folders[:] = []
            yield Path(folder)
            continue
        if os.path.isfile(os.path.join(folder, "include", "ck", "ck.hpp")):
            folders[:] = []  # Composable Kernel is AMD's own
            continue
        for name in sorted(names):
            if _is_read(name):
                yield Path(folder, name)


def _is_read(name: str) -> bool:
    """Whether a file is code, or a list, of a kind that has a reader."""
    suffix = os.path.splitext(name)[1]
    known = suffix in (*_PYTHON, ".cmake", *_NATIVE) or name == "CMakeLists.txt"
    return known or _lists(name) or _runs(name, suffix)


def _packages(root: Path) -> frozenset[str]:
    """Names of its own modules: packages, and files beside which there is no `__init__.py`."""
    found = set()
    if root.is_file():
        return frozenset()
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in _SKIPPED]
        if "__init__.py" in names:
            found.add(os.path.basename(folder))
            folders[:] = []
        else:
            found |= {name[:-3] for name in names if name.endswith(".py")}
    return frozenset(found)


def _text(path: Path) -> tuple[str, str]:
    """(text, why it cannot be read)."""
    try:
        if not path.is_file():
            return "", "a link that leads to no file" if path.is_symlink() else "not a file"
        if path.stat().st_size > _MOST_BYTES:
            return "", f"larger than {_MOST_BYTES >> 20} MiB"
        raw = path.read_bytes()
    except OSError as error:
        return "", error.strerror or str(error)
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", errors="replace"), ""
    if b"\0" in raw[:8192]:
        return "", "not text"
    return raw.removeprefix(codecs.BOM_UTF8).decode(errors="replace"), ""


def _hit(found: Found, place: Place, path: Path, text: str) -> None:
    found.counts[place.kind] = found.counts.get(place.kind, 0) + 1
    if found.counts[place.kind] <= MOST_HITS:
        row = {"kind": place.kind, "file": os.path.abspath(path), "line": place.line}
        found.hits.append({**row, "what": place.what[:120], "text": text.strip()[:160]})
