"""MACH059: torch is there."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import GPU, case

_INDEX = {"nvidia": "cu128", "cpu": "cpu"}


def _case(kind: str, **packages: str) -> Case:
    gpus = (GPU,) if kind == "amd" else ()
    python = {"version": "3.12.3", "executable": "/usr/bin/python3"}
    return case(*gpus, kind=kind, python=python, packages=packages)


@check(
    "MACH059",
    Severity.WARNING,
    needs=("machine.packages", "machine.python", "machine.kind"),
    good=(_case("amd", torch="2.13.0+rocm7.2"),),
    bad=(_case("amd"), _case("nvidia"), _case("cpu")),
)
def torch(case: Case) -> Iterator[Finding]:
    """Torch is installed for the Python that runs this.

    Why: nothing about wheels can be said without; and a torch in another environment is not the
    one that this Python imports.
    Fix: `reefwatch plan` gives one consistent set for a card; or run doctor with the Python of the
    environment that is meant: `path/to/venv/bin/python -m reefwatch doctor`.
    Source: importlib, the path of this Python.
    """
    if "torch" in case.value("machine.packages"):
        return
    kind, python = case.value("machine.kind"), case.value("machine.python")
    tag = _INDEX.get(kind)
    yield Finding(
        f"torch is not installed for {python.get('executable', 'this Python')} "
        f"({python.get('version', '?')})",
        (case.evidence("machine.packages"),),
        why="every use; the wheel cannot be judged",
        fix=f"pip install torch --index-url https://download.pytorch.org/whl/{tag}"
        if tag
        else "reefwatch plan, and the pip command that it prints",
    )
