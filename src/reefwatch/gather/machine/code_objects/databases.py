"""Kernel databases by the targets in their files' names: Tensile, hipBLASLt, MIOpen, AOTriton."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from reefwatch.data import targets

_RULES = (
    # (library, what its absence means, pattern over the path)
    ("hipBLASLt", "speed", re.compile(r"(?:^|/)hipblaslt/library/|extop_gfx|hipblasltExt")),
    ("rocBLAS", "works", re.compile(r"(?:^|/)rocblas/library/|TensileLibrary|Kernels\.so-000-")),
    ("hipSPARSELt", "speed", re.compile(r"(?:^|/)hipsparselt/library/")),
    ("MIOpen", "speed", re.compile(r"\.(?:kdb|fdb\.txt|db\.txt|tn\.model|ktn\.model)$")),
    ("AOTriton", "speed", re.compile(r"aotriton\.images/|\.aks2$")),
    ("rocFFT", "speed", re.compile(r"rocfft_kernel_cache")),
)


@dataclass(frozen=True)
class Database:
    """The files of one library in one package, by target."""

    library: str
    package: str
    folder: str
    files: int
    targets: tuple[str, ...]
    absence: str
    """What a missing target means: "works" (calls fail), "speed" (slower, or another library)."""


def group(paths: Iterable[tuple[str, str]]) -> list[Database]:
    """The databases among (path, package). Files without a target are left out."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for path, package in paths:
        path = path.replace("\\", "/")
        target = targets.named(path)
        rule = None if target is None else _rule(path)
        if rule is not None and target is not None:
            found[(rule[0], package, rule[1])].append((path, target))
    return [
        Database(
            library,
            package,
            rows[0][0].rpartition("/")[0],
            len(rows),
            tuple(sorted({target for _, target in rows})),
            absence,
        )
        for (library, package, absence), rows in sorted(found.items())
    ]


def _rule(path: str) -> tuple[str, str] | None:
    for library, absence, pattern in _RULES:
        if pattern.search(path):
            return library, absence
    return None
