"""PREC049: the BLAS library that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case

_BLAS: dict[str, Any] = {
    "first": "cublaslt",
    "last": "cublaslt",
    "asked": "cublaslt",
    "after": "aten.mm.default",
    "half": False,
    "warnings": [],
}
_WARNING = (
    "Attempting to use hipBLASLt on an unsupported architecture! Overriding blas backend to hipblas"
)


@check(
    "PREC049",
    Severity.WARNING,
    needs=("precision.blas",),
    when=("precision.blas",),
    good=(
        Case.of(precision__blas=_BLAS),
        Case.of(precision__blas=_BLAS | {"asked": "", "first": "cublas", "last": "cublas"}),
    ),
    bad=(
        Case.of(precision__blas=_BLAS | {"first": "cublas", "last": "cublas"}),
        Case.of(precision__blas=_BLAS | {"last": "cublas"}),
        Case.of(precision__blas=_BLAS | {"asked": "", "warnings": [_WARNING]}),
    ),
)
def blas_gate(case: Case) -> Iterator[Finding]:
    """Matrix products go to the BLAS library that was asked for.

    Compares what the environment asks for (`TORCH_BLAS_PREFER_HIPBLASLT`) with what torch names
    after products ran, and reads torch's warnings about it. `cublas` and `cublaslt` stand for
    hipBLAS and hipBLASLt on AMD, as torch calls them.

    Why: torch checks the card when it first needs the library, and falls back with one warning,
    which scrolls by; which cards are preferred differs between wheels of the same version.
    Fix: unset the variable, or set it before torch is imported; measure both: the newer library is
    not the faster one on every card.
    Source: https://github.com/pytorch/pytorch/pull/153610,
    https://github.com/ROCm/legacy-rocm-build/issues/5643
    """
    told: dict[str, Any] = case.value("precision.blas")
    names = (told["first"], told["last"])
    if told["asked"] and told["last"] != told["asked"]:
        message = f"{told['asked']} was asked for, and products went to {told['last']}"
    elif told["first"] != told["last"]:
        message = (
            f"the library changed from {told['first']} to {told['last']} while the run went on"
        )
    elif told["warnings"]:
        message = "torch warned about its BLAS library"
    else:
        return
    yield Finding(
        message,
        (
            Evidence("library", " then ".join(dict.fromkeys(names)), source="torch"),
            Evidence("warnings", told["warnings"], source="torch"),
        ),
        why="torch found the card unsupported or not preferred",
        fix="set TORCH_BLAS_PREFER_HIPBLASLT to what is meant, and compare both",
    )
