"""MACH005: the BLAS library that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, known, shown, title

_NAMES = ("TORCH_BLAS_PREFER_HIPBLASLT", "ROCBLAS_USE_HIPBLASLT", "TORCH_BLAS_PREFER_CUBLASLT")
_TARGETS = {"gfx1100": {"hipblaslt": "supported"}, "gfx942": {"hipblaslt": "preferred"}}
_TARGETS["gfx1150"] = {"hipblaslt": "supported"}


def _set(gpu: Any, **values: str) -> Case:
    return case(gpu, variables={k: {"value": v} for k, v in values.items()}, targets=_TARGETS)


@check(
    "MACH005",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.variables", "machine.gpus", "machine.targets"),
    good=(
        _set(GPU),
        _set(GPU, TORCH_BLAS_PREFER_HIPBLASLT="0"),
        _set(GPU | {"gfx": "gfx942"}, TORCH_BLAS_PREFER_HIPBLASLT="1"),
    ),
    bad=(
        _set(GPU, TORCH_BLAS_PREFER_HIPBLASLT="1"),
        _set(GPU | {"gfx": "gfx1150"}, ROCBLAS_USE_HIPBLASLT="1"),
    ),
)
def blas(case: Case) -> Iterator[Finding]:
    """HipBLASLt is not forced on cards for which torch does not choose it itself.

    Why: on consumer cards and APUs forced hipBLASLt was slower, hung, or reset the GPU; rounding
    differs between the libraries, so results cannot be compared across the setting.
    Fix: `unset TORCH_BLAS_PREFER_HIPBLASLT ROCBLAS_USE_HIPBLASLT`.
    Source: pytorch CUDAHooks.cpp (the lists of targets); ROCm/pytorch PR 2167.
    """
    variables = case.value("machine.variables")
    targets = case.value("machine.targets")
    forced = [n for n in _NAMES if variables.get(n, {}).get("value", "0").strip() == "1"]
    for gpu in shown(case) if forced else ():
        state = targets.get(known(gpu["gfx"]), {}).get("hipblaslt", "unknown")
        if state != "preferred":
            yield Finding(
                f"{forced[0]}=1 on {title(gpu)} ({known(gpu['gfx'])}), where torch prefers hipBLAS",
                (Evidence(forced[0], "1", source="the environment"),),
                why="training and inference: hangs and resets were reported, and it is slower",
                fix="unset " + " ".join(forced),
            )
