"""MACH058: a build of torch for a GPU that is not there."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case

_INDEX = "https://download.pytorch.org/whl/cpu"


def _case(kind: str, built: str) -> Case:
    torch = {"kind": built, "version": "2.13.0", "release": "2.13.0"}
    return case(kind=kind, torch=torch, has_torch=True)


@check(
    "MACH058",
    Severity.NOTE,
    when=("machine.has_torch",),
    needs=("machine.kind", "machine.torch"),
    good=(_case("cpu", "cpu"), _case("amd", "rocm")),
    bad=(_case("cpu", "cuda"), _case("cpu", "rocm")),
)
def size(case: Case) -> Iterator[Finding]:
    """On a machine without a GPU torch is the build for the processor.

    A note: the other builds work there too.

    Why: the builds for GPUs take gigabytes of disk, and longer to import.
    Fix: `pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cpu`.
    Source: pytorch.org, get started.
    """
    torch = case.value("machine.torch")
    if case.value("machine.kind") == "cpu" and torch["kind"] in ("cuda", "rocm"):
        yield Finding(
            f"torch {torch['version']} is built for a GPU, and none is to be seen here",
            (case.evidence("machine.torch"),),
            why="disk and start-up time; if a GPU should be here, it is hidden or has no driver",
            fix=f"pip install --force-reinstall torch=={torch['release']} --index-url {_INDEX}",
        )
