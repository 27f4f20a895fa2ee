"""MACH060: one ROCm in a process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case

_WHEEL = {"where": "torch wheel", "root": "/venv/torch/lib", "version": ""}
_SDK = {"where": "rocm wheels", "root": "/venv/_rocm_sdk_core", "version": "7.14.0"}
_SYSTEM = {"where": "system", "root": "/opt/rocm", "version": "6.2.0"}
_TWICE = {"libamdhip64.so": ["/opt/rocm/lib", "/venv/torch/lib"]}


@check(
    "MACH060",
    Severity.ERROR,
    when=("machine.torch_rocm",),
    needs=("machine.rocm",),
    good=(
        case(torch_rocm=True, rocm=[_WHEEL, _SYSTEM]),
        case(torch_rocm=True, rocm=[_SDK], mapped={"libamdhip64.so": ["/venv/_rocm_sdk_core"]}),
    ),
    bad=(
        case(torch_rocm=True, rocm=[_WHEEL, _SDK]),
        case(torch_rocm=True, rocm=[_WHEEL | {"where": "LD_LIBRARY_PATH", "root": "/x"}, _WHEEL]),
        case(torch_rocm=True, rocm=[_WHEEL], mapped=_TWICE),
        case(torch_rocm=True, rocm=[_WHEEL, _SDK, _SDK | {"root": "/other/_rocm_sdk_core"}]),
    ),
)
def one_rocm(case: Case) -> Iterator[Finding]:
    """One copy of ROCm's runtime can be loaded into a process with torch.

    A system ROCm under /opt that no variable points to is no second copy. With --deep the
    libraries that a process really maps are looked at.

    Why: two runtimes in one process do not know of each other: segmentation faults in MIOpen,
    undefined symbols, hipBLAS that cannot create its handle, pointers taken for the CPU's.
    Fix: one environment for one torch; `pip uninstall` the ROCm wheels that it does not ask for;
    unset LD_LIBRARY_PATH.
    Source: ROCm libraries mixed in one process (public reports); TheRock, RELEASES.md.
    """
    copies: Sequence[Mapping[str, Any]] = case.value("machine.rocm")
    inside = [copy for copy in copies if copy["where"] != "system"]
    roots = list(dict.fromkeys(copy["root"] for copy in inside))
    if len(roots) > 1:
        where = list(dict.fromkeys(copy["where"] for copy in inside))
        yield Finding(
            f"{len(roots)} copies of ROCm's runtime are in reach: {', '.join(roots[:3])}",
            (Evidence("copies", roots, source="files on disk"),),
            why="every use: crashes and undefined symbols, from call to call another library",
            fix="unset LD_LIBRARY_PATH"
            if "LD_LIBRARY_PATH" in where
            else "pip uninstall what torch does not ask for: pip show torch | grep Requires",
        )
    for library, places in (case.known("machine.mapped", {}) or {}).items():
        if len(places) > 1:
            yield Finding(
                f"{library} is loaded twice after import torch: {', '.join(places[:2])}",
                (Evidence(library, list(places), source="/proc/self/maps of a child process"),),
                why="every use: two runtimes in one process",
                fix="unset LD_LIBRARY_PATH and LD_PRELOAD; one ROCm per environment",
            )
