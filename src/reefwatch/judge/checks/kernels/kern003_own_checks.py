"""KERN003: the file runs to its end and its own checks pass."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge import kernels

_FAILED = {
    "unit": "test_add",
    "ok": False,
    "error": "AssertionError: tensors are not close",
    "kind": "AssertionError",
    "file": "kernels.py",
    "line": 30,
    "version": "3.7.1",
}
_ENDS = ("NotRun", "ModuleNotFoundError", "ImportError", "OutOfResources", "CompilationError")


def _units(case: Case) -> tuple[Coverage, ...]:
    units = case.rows("kernels.unit")
    ended = [e for e in units if e.data.get("kind") not in _ENDS]
    return (Coverage("tests and mains", len(ended), len(units)),)


def _doubt(case: Case) -> str:
    for event in case.rows("kernels.unit"):
        if event.data.get("kind") in _ENDS:
            return f"{event.data['unit']} was not run to its end: {event.data.get('error')}"
    for version, told in case.known("kernels.matrix", {}).get("versions", {}).items():
        if told.get("failed"):
            return f"Triton {version}: {told['failed']}"
    return ""


@check(
    "KERN003",
    Severity.ERROR,
    needs=("kernels.units",),
    covers=_units,
    doubt=_doubt,
    good=(
        Case.of(
            Event("kernels.unit", {"unit": "main", "ok": True, "version": "3.7.1"}),
            **kernels.FACTS,
        ),
    ),
    bad=(Case.of(Event("kernels.unit", _FAILED), kernels.example(), **kernels.FACTS),),
)
def own_checks(case: Case) -> Iterator[Finding]:
    """The file runs to its end and its own checks pass.

    What its asserts say of results that the virtual GPU computed, written back to the tensors. A
    unit that could not be run to its end (a launch that is not modelled, a module that is missing,
    a compiler that refuses) leaves the claim unproven.

    Why: the author's own reference is the witness that knows what the kernel is meant to do.
    Fix: where KERN001 holds, the kernel or the tolerance of the test is at fault, not the compiler;
    where KERN001 is broken too, that is the reason.
    Source: the file itself
    """
    for event in case.rows("kernels.unit"):
        row = event.data
        if row.get("ok") or row.get("kind") in _ENDS:
            continue
        yield Finding(
            f"{row['unit']} with Triton {row['version']} failed: {row.get('error')}",
            (Evidence("error", str(row.get("error", "")), source=str(row["unit"])),),
            Place(str(row["unit"]), "", str(row.get("file", "")), int(row.get("line", 0) or 0)),
        )
