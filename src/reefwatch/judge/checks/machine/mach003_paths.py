"""MACH003: variables that lead the loader to another ROCm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case

_TORCH_ROCM = "machine.torch_rocm"
_LIBRARIES = ("ROCBLAS_TENSILE_LIBPATH", "HIPBLASLT_TENSILE_LIBPATH", "MIOPEN_SYSTEM_DB_PATH")
_SITE = "/venv/lib/python3.12/site-packages"
_WHEEL = {"where": "torch wheel", "root": f"{_SITE}/torch/lib", "version": ""}


def _set(name: str, value: str, *copies: Any) -> Case:
    return case(
        variables={name: {"value": value}}, rocm=[_WHEEL, *copies], torch_rocm=True,
        torch={"site": _SITE, "rocm": "6.4"},
    )  # fmt: skip


@check(
    "MACH003",
    Severity.ERROR,
    when=(_TORCH_ROCM,),
    needs=("machine.variables", "machine.rocm", "machine.torch"),
    good=(
        _set("LD_LIBRARY_PATH", "/usr/local/lib"),
        _set("ROCBLAS_TENSILE_LIBPATH", f"{_SITE}/torch/lib/rocblas/library"),
        case(
            variables={"LD_LIBRARY_PATH": {"value": "/opt/rocm/lib"}},
            rocm=[{"where": "system", "root": "/opt/rocm", "version": "7.2.0"}],
            torch_rocm=True,
            torch={"site": _SITE, "rocm": "7.2"},
        ),
    ),
    bad=(
        _set("ROCBLAS_TENSILE_LIBPATH", "/opt/rocm/lib/rocblas/library"),
        _set("LD_LIBRARY_PATH", "/opt/rocm-6.2.0/lib:/usr/lib"),
        _set("LD_PRELOAD", "/opt/rocm/lib/libamdhip64.so"),
    ),
)
def paths(case: Case) -> Iterator[Finding]:
    """No variable leads a wheel with its own ROCm to the libraries of another one.

    Why: torch's ROCm wheel carries ROCm. With libraries or kernel files of another release in
    front, calls fail with "invalid device function", symbols are missing, no GPU is found, or the
    kernels of one release run under the runtime of another.
    Fix: unset the variable for the shell that runs torch (`module purge` on a cluster); a system
    ROCm that other programs need can stay installed.
    Source: AMDResearch/hpcfund issue 86; ROCm/bitsandbytes issue 29.
    """
    variables = case.value("machine.variables")
    site = str(case.value("machine.torch").get("site", ""))
    copies = case.value("machine.rocm")
    own = {copy["root"] for copy in copies if copy["where"] in ("torch wheel", "rocm wheels")}
    if not own:
        return  # an image in which torch was built on the system's ROCm needs the variable
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", *_LIBRARIES):
        value = variables.get(name, {}).get("value", "")
        parts = [part for part in re.split(r"[:\s]+", value) if part]
        foreign = [part for part in parts if _foreign(part, name, site, own)]
        if foreign:
            yield Finding(
                f"{name} leads to {foreign[0][:120]}, and torch brings its own ROCm",
                (Evidence(name, value[:400], source="the environment"),),
                claimed="one ROCm per process, the wheel's",
                why="libraries and kernel files of two releases meet in one process",
                fix=f"unset {name}",
            )


def _foreign(part: str, name: str, site: str, own: set[str]) -> bool:
    if part.startswith(site) or any(part.startswith(root) for root in own if root):
        return False
    rocm = re.search(r"(?:^|/)rocm(?:[-/.\d]|$)|libamdhip64|libhsa-runtime|librocblas", part)
    return bool(rocm) or name in _LIBRARIES
