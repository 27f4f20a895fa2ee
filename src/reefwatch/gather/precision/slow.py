"""Why an op was slow though its dtype is right: what the names of its kernels tell."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reefwatch.gather.precision.rows import Row

_NAIVE = re.compile(r"naive_conv_|_ISA000_|Cijk_(?!\w*_MI\d)\w*_SE_")
_BY_GEMM = re.compile(r"Im[23]d2Col|im2col|vol2col|Col2Im", re.IGNORECASE)
_NATIVE = ("slow_conv", "_slow_conv")


def slow_cause(row: Row, kernels: Iterable[str]) -> str:
    """`naive kernel`, `kernel missing`, `library gate`, or "" when the names tell nothing.

    A convolution that is unrolled into a matrix first has no kernel of its own; one of torch's own
    slow ops, and attention in separate products, were left there by a gate of the library.
    """
    names = list(kernels)
    if any(_NAIVE.search(name) for name in names):
        return "naive kernel"
    if row.kind == "conv" and any(_BY_GEMM.search(name) for name in names):
        return "kernel missing"
    if row.length or row.name.split(".")[1].startswith(_NATIVE):
        return "library gate"
    return ""
