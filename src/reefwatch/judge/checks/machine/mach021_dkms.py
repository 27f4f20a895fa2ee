"""MACH021: AMD's own kernel module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case


def _driver(kind: str, running: bool, *kernels: str, loaded: bool = True) -> dict[str, Any]:
    built = {"dkms": ["6.16.13-1"] if kernels else [], "kernels": list(kernels), "running": running}
    return {"loaded": loaded, "kind": kind, "version": "6.16.13", "built": built}


def _case(driver: dict[str, Any]) -> Case:
    return case(GPU, driver=driver, kernel="6.8.0-45-generic")


@check(
    "MACH021",
    Severity.ERROR,
    when=(AMD,),
    needs=("machine.driver", "machine.kernel"),
    good=(
        _case(_driver("dkms", True, "6.8.0-45-generic")),
        _case(_driver("in-tree", False)),
    ),
    bad=(
        _case(_driver("in-tree", False, "6.8.0-41-generic")),
        _case(_driver("", False, "6.8.0-41-generic", loaded=False)),
    ),
)
def dkms(case: Case) -> Iterator[Finding]:
    """AMD's kernel module, where it is installed, was built for the kernel that runs.

    Why: after a kernel update the module may not build. The machine then starts with the kernel's
    own amdgpu or with none, and ROCm meets a driver that it was not tested with.
    Fix: `sudo dkms autoinstall` and read its log; boot the kernel before; or take AMD's module out
    (`sudo amdgpu-install --uninstall`, then ROCm with `--no-dkms`) and use the kernel's.
    Source: ROCm/rocm-install-on-linux issue 293.
    """
    driver: Mapping[str, Any] = case.value("machine.driver")
    built = driver["built"]
    if not built["dkms"] or built["running"]:
        return
    kernels = ", ".join(built["kernels"][:3]) or "no kernel"
    instead = "no amdgpu is loaded" if not driver["loaded"] else "the kernel's own amdgpu is loaded"
    yield Finding(
        f"amdgpu-dkms {built['dkms'][0]} was built for {kernels}, and "
        f"{case.value('machine.kernel')} runs: {instead}",
        (case.evidence("machine.driver"), case.evidence("machine.kernel")),
        claimed="a module for the kernel that runs",
        why="every use: no GPU, or one under a driver that this ROCm was not tested with",
        fix=f"sudo dkms autoinstall -k {case.value('machine.kernel')}; else boot the kernel before",
    )
