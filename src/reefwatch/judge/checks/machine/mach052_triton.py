"""MACH052: the Triton that torch asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case, of_row

_PIN = {"package": "triton-rocm", "version": "3.7.1"}
_AMD = ("triton-rocm", "pytorch-triton-rocm")


def _case(pin: Any = _PIN, row: Any = None, **packages: str) -> Case:
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    torch = {"release": "2.13.0", "kind": "rocm", "triton": pin, "version": "2.13.0+rocm7.2"}
    return case(torch_rocm=True, torch=torch, packages=named, expected=row or {})


@check(
    "MACH052",
    Severity.ERROR,
    when=("machine.torch_rocm",),
    needs=("machine.packages", "machine.torch"),
    good=(
        _case(triton_rocm="3.7.1"),
        _case(triton_rocm="3.7.1+git1234"),
        _case(None, triton_rocm="3.7.1"),
    ),
    bad=(
        _case(triton_rocm="3.7.1", triton="3.9.0"),
        _case(triton="3.7.1"),
        _case(triton_rocm="3.6.0"),
        _case(),
    ),
)
def triton(case: Case) -> Iterator[Finding]:
    """The Triton that is installed is the ROCm one that this torch asks for, and alone.

    Why: `triton` from PyPI and `triton-rocm` are one module; whichever was installed last lies
    on disk. torch.compile then asks for ptxas, fails in a pass, or compiles what nobody tested.
    Fix: `pip uninstall -y triton triton-rocm pytorch-triton-rocm`, then torch again from its index.
    Source: ROCm issue 3060; pytorch issue 147377; the Requires-Dist of torch.
    """
    packages: Mapping[str, str] = case.value("machine.packages")
    torch = case.value("machine.torch")
    pin, row = torch["triton"], case.known("machine.expected", {})
    fix = (
        "pip uninstall -y triton triton-rocm pytorch-triton-rocm; "
        f"pip install --force-reinstall torch=={torch['version']}"
    )
    if row.get("index"):
        fix += f" --index-url {row['index']}"
    why = "torch.compile, and libraries with Triton kernels"
    have = {name: packages[name] for name in _AMD if name in packages}
    evidence = (Evidence("triton", have | _plain(packages), source="dist-info"),)
    if "triton" in packages:
        other = "beside " + next(iter(have)) if have else "in place of triton-rocm"
        yield Finding(f"triton {packages['triton']} from PyPI is installed {other}", evidence,
                      why=why, fix=fix)  # fmt: skip
    elif not have and pin:
        yield Finding(f"{pin['package']} is not installed, and torch asks for {pin['version']}",
                      evidence, why=why, fix=fix)  # fmt: skip
    elif have and pin and _base(next(iter(have.values()))) != _base(pin["version"]):
        name, version = next(iter(have.items()))
        yield Finding(
            f"{name} {version}, and torch asks for {pin['version']}", evidence, why=why, fix=fix
        )
    elif have and not pin and row.get("triton", "")[:1].isdigit():
        name, version = next(iter(have.items()))
        if _base(version) != _base(row["triton"]):
            yield Finding(
                f"{name} {version}, and the table has {row['triton']} for this torch",
                (of_row("triton", version, row),),
                why=why,
                fix=fix,
            )


def _plain(packages: Mapping[str, str]) -> dict[str, str]:
    return {"triton": packages["triton"]} if "triton" in packages else {}


def _base(version: str) -> str:
    return version.partition("+")[0]
