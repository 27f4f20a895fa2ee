"""What a kernel's machine code says: matrix instructions or none, and in which dtype.

Stronger evidence than a name: `tl.dot` of fp32 becomes xf32 on gfx942, TF32 on sm_80 and plain
multiply-adds on gfx1100, under the same name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from reefwatch.data import table
from reefwatch.data.kernels import UNKNOWN

DOT = re.compile(r"\btt\.dot(?:_scaled)?\b|\bttng\.(?:warp_group_dot|tc_gen5_mma)\b")
"""A matrix product in Triton's own intermediate code."""


@dataclass(frozen=True)
class MachineCode:
    """What was found in one kernel's assembly."""

    matrix: Mapping[str, int]
    """Matrix instructions by name and how often they stand in the code."""
    vector: Mapping[str, int]
    compute_dtype: str
    accumulate_dtype: str
    dot: bool | None = None
    """True when the source asks for a matrix product; None when that is not known."""

    @property
    def matrix_core(self) -> str:
        """`yes` or `no`: machine code leaves no doubt."""
        return "yes" if self.matrix else "no"


@cache
def _patterns(kind: str) -> tuple[re.Pattern[str], ...]:
    rules: Iterable[Mapping[str, Any]] = table("instructions.toml")[kind]
    return tuple(re.compile(rule["pattern"]) for rule in rules)


def read(assembly: str, intermediate: str | None = None) -> MachineCode:
    """What `.amdgcn` or `.ptx` text computes in; `intermediate` is the kernel's `.ttir`, if known.

    Without a matrix instruction the dtype is told only where the source has a product: the
    multiply-adds of other kernels say nothing of their tensors.
    """
    dot = None if intermediate is None else DOT.search(intermediate) is not None
    matrix, kinds = _count("matrix", assembly)
    vector, plain = _count("vector", assembly)
    if not kinds and dot:
        kinds = plain
    dtype, acc = kinds.most_common(1)[0][0] if kinds else (UNKNOWN, UNKNOWN)
    return MachineCode(matrix, vector, dtype, dtype if acc == UNKNOWN and kinds else acc, dot)


def _count(kind: str, assembly: str) -> tuple[dict[str, int], Counter[tuple[str, str]]]:
    """Instructions by name, and by (dtype, accumulator)."""
    words: Mapping[str, str] = table("instructions.toml")["words"]
    names: Counter[str] = Counter()
    kinds: Counter[tuple[str, str]] = Counter()
    for pattern in _patterns(kind):
        for found in pattern.finditer(assembly):
            groups = found.groupdict()
            names[found[0]] += 1
            dtype = words.get(groups.get("dtype") or "", UNKNOWN)
            kinds[dtype, words.get(groups.get("acc") or "", UNKNOWN)] += 1
    return dict(names), kinds
