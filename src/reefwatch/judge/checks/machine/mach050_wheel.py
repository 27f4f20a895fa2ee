"""MACH050: torch is built for the GPU that is here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import GPU, case

_INDEX = "https://download.pytorch.org/whl/rocm7.2"


def _case(machine: str, kind: str, version: str) -> Case:
    gpus = (GPU,) if machine == "amd" else ()
    torch = {"version": version, "kind": kind, "release": version.partition("+")[0]}
    return case(*gpus, kind=machine, torch=torch, has_torch=True, expected={"index": _INDEX})


@check(
    "MACH050",
    Severity.ERROR,
    when=("machine.has_torch",),
    needs=("machine.kind", "machine.torch"),
    good=(
        _case("amd", "rocm", "2.13.0+rocm7.2"),
        _case("nvidia", "cuda", "2.13.0+cu128"),
        _case("cpu", "cpu", "2.13.0+cpu"),
        _case("cpu", "cuda", "2.13.0"),
    ),
    bad=(
        _case("amd", "cpu", "2.13.0+cpu"),
        _case("amd", "cuda", "2.13.0"),
        _case("nvidia", "cpu", "2.13.0+cpu"),
        _case("nvidia", "rocm", "2.13.0+rocm7.2"),
    ),
)
def wheel(case: Case) -> Iterator[Finding]:
    """The torch that is installed can use the GPU of this machine.

    Why: `pip install torch` takes the CUDA build, and pip counts 2.10.0+cpu as 2.10.0: torch then
    imports, works on the processor, and says that there is no GPU.
    Fix: `pip install --force-reinstall torch==<version>+rocm<x.y> --index-url
    https://download.pytorch.org/whl/rocm<x.y>` (index-url, not extra-index-url).
    Source: pytorch.org, get started; torch.toml.
    """
    torch: Mapping[str, Any] = case.value("machine.torch")
    kind = case.value("machine.kind")
    wanted = {"amd": "rocm", "nvidia": "cuda"}.get(kind)
    if wanted is None or torch["kind"] in (wanted, "unknown"):
        return
    index = case.known("machine.expected", {}).get("index") if kind == "amd" else None
    place = index or f"https://download.pytorch.org/whl/{'rocm7.2' if kind == 'amd' else 'cu128'}"
    tag = place.rstrip("/").rpartition("/")[2]
    built = {"cpu": "for the processor alone", "cuda": "for CUDA", "rocm": "for ROCm"}
    yield Finding(
        f"torch {torch['version']} is built {built.get(torch['kind'], 'for something else')}, "
        f"and the GPU is {'an AMD' if kind == 'amd' else 'an NVIDIA'} one",
        (case.evidence("machine.torch"), case.evidence("machine.kind")),
        claimed=f"a {wanted.upper()} build" if wanted == "cuda" else "a ROCm build",
        why="every use: torch computes on the processor, or fails at the first .cuda()",
        fix=f"pip install --force-reinstall 'torch=={torch['release']}+{tag}' --index-url {place}",
    )
