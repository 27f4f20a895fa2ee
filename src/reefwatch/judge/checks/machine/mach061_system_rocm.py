"""MACH061: the ROCm that builds extensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case


def _case(rocm: str, *copies: Any, **variables: str) -> Case:
    return case(
        torch_rocm=True,
        torch={"rocm": rocm, "version": f"2.9.1+rocm{rocm}"},
        rocm=list(copies),
        variables={name: {"value": value} for name, value in variables.items()},
    )


def _at(version: str, root: str = "/opt/rocm") -> dict[str, str]:
    return {"where": "system", "root": root, "version": version}


def _copies(case: Case) -> list[Mapping[str, Any]]:
    return [copy for copy in case.value("machine.rocm") if copy["where"] == "system"]


def _doubt(case: Case) -> str:
    rocm = str(case.value("machine.torch").get("rocm") or "")
    copies = _copies(case)
    if copies and not rocm:
        return "torch does not tell of which ROCm it is"
    if any(_minor(copy["version"]) == _minor(rocm) for copy in copies):
        return ""
    bare = [copy["root"] for copy in copies if not copy["version"]]
    return f"the ROCm at {bare[0]} tells no version: it may be installed by halves" if bare else ""


@check(
    "MACH061",
    Severity.WARNING,
    when=("machine.torch_rocm",),
    needs=("machine.rocm", "machine.torch"),
    good=(_case("6.4", _at("6.4.1")), _case("6.4"), _case("6.4", _at("6.2.0"), _at("6.4.4"))),
    bad=(_case("7.2", _at("6.2.0")),),
    doubt=_doubt,
)
def system_rocm(case: Case) -> Iterator[Finding]:
    """A system ROCm, where there is one, is of the minor release of torch's.

    Why: extensions that are built here (flash-attn, bitsandbytes, DeepSpeed's ops) take compiler
    and headers from /opt/rocm, and are then loaded into a process with torch's ROCm.
    Fix: install the system ROCm of torch's release beside the other, and
    `export ROCM_PATH=/opt/rocm-<release>` for the build. Nothing to do where nothing is built.
    Source: PyTorch, torch.utils.cpp_extension; ROCm/bitsandbytes issue 82.
    """
    rocm = str(case.value("machine.torch").get("rocm") or "")
    copies = _copies(case)
    if not rocm or not copies or any(_minor(c["version"]) in ("", _minor(rocm)) for c in copies):
        return
    have = ", ".join(f"{copy['version']} at {copy['root']}" for copy in copies[:3])
    yield Finding(
        f"system ROCm {have}, and torch {case.value('machine.torch')['version']} brings {rocm}",
        (Evidence("system ROCm", [c["version"] for c in copies], source=".info/version"),),
        why="building extensions: compiler and headers of another release than the runtime",
        fix=f"install ROCm {rocm} beside it, and export ROCM_PATH=/opt/rocm-{rocm} for builds",
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
