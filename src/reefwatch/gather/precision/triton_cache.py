"""Compiled Triton kernels on disk: a name leads to the machine code that ran."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UsageError
from reefwatch.data import instructions
from reefwatch.data.instructions import MachineCode
from reefwatch.data.kernels import UNKNOWN, Kernel

KINDS = {".amdgcn": "amd", ".ptx": "nvidia"}
LARGEST = 1 << 26
"""Bytes of one assembly file that are read; a longer one is left out."""


@dataclass(frozen=True)
class Compiled:
    """One compiled kernel of a cache."""

    name: str
    path: Path
    kind: str
    """`amd` or `nvidia`."""
    arch: str
    code: MachineCode


class Cache:
    """The kernels below a folder (`~/.triton/cache`, `/tmp/torchinductor_*/triton`), read once."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError(f"no Triton cache: {str(folder)!r} is no folder")
        self.kernels: dict[str, list[Compiled]] = defaultdict(list)
        for compiled in _compiled(folder):
            self.kernels[compiled.name].append(compiled)

    def decide(self, kernel: Kernel, device: str = "") -> Kernel:
        """The kernel with what its machine code says; itself when the cache does not hold it.

        One name can stand for several compilations (dtypes, block sizes). Where those differ, the
        field stays unknown: the trace does not say which of them ran. `device` (`amd`, `nvidia`)
        leaves out what was compiled for other cards.
        """
        bare = kernel.name.split("(")[0].removesuffix(".kd").strip()
        found = [one for one in self.kernels.get(bare, ()) if device in ("", one.kind)]
        if not found:
            return kernel
        dot = any(one.code.dot for one in found)
        return replace(
            kernel,
            library="triton",
            compute_dtype=_same(one.code.compute_dtype for one in found),
            accumulate_dtype=_same(one.code.accumulate_dtype for one in found),
            matrix_core=_same(one.code.matrix_core for one in found),
            naive="no",
            role="gemm" if dot or any(one.code.matrix for one in found) else kernel.role,
        )


def _same(values: Iterator[str]) -> str:
    told = set(values)
    return told.pop() if len(told) == 1 else UNKNOWN


def _compiled(folder: Path) -> Iterator[Compiled]:
    for place, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            kind = KINDS.get(os.path.splitext(file)[1])
            if kind is not None:
                one = _read(Path(place, file), kind)
                if one is not None:
                    yield one


def _read(path: Path, kind: str) -> Compiled | None:
    """One kernel; None for a file that cannot be read (the cache may be in use)."""
    try:
        if path.stat().st_size > LARGEST:
            return None
        assembly = path.read_text("utf-8", "replace")
    except OSError:
        return None
    about = _about(path.with_suffix(".json"))
    target = about.get("target")
    arch = target.get("arch", "") if isinstance(target, Mapping) else ""
    name = about.get("name")
    return Compiled(
        name if isinstance(name, str) else path.stem,
        path,
        kind,
        str(arch),
        instructions.read(assembly, _text(path.with_suffix(".ttir"))),
    )


def _about(path: Path) -> Mapping[str, Any]:
    try:
        told = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return None
