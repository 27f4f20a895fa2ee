"""The verb `trace`: a profiler trace taken anywhere, or only the names of kernels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reefwatch.api.settings import Settings, precision
from reefwatch.core.errors import UsageError

if TYPE_CHECKING:
    from reefwatch.core.report import Report

NO_KERNELS = (
    "only CPU events were recorded: no kernel was judged (profile with ProfilerActivity.CUDA)"
)


def audit(
    path: str | os.PathLike[str],
    *,
    claim: str | None = None,
    triton_cache: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
) -> Report:
    """Judge the precision and the kernels of one trace file (`.json` or `.json.gz`).

    With `triton_cache` the machine code in that folder decides what Triton kernels are.
    Raises UnreadableTrace, UsageError.
    """
    from dataclasses import replace

    from reefwatch.api import judging
    from reefwatch.core.fact import Unknown
    from reefwatch.gather.precision import traced

    settings = Settings.of(claim, config=config, baseline=baseline)
    silences = judging.silences(settings, Path.cwd())
    file = Path(path)
    if not file.exists():
        raise UsageError(f"cannot open {str(path)!r}: No such file or directory")
    record = traced.read(file, None if triton_cache is None else Path(triton_cache))
    report = judging.judged("trace", [record], precision(claim), silences)
    remarks = list(report.remarks)
    if isinstance(record.fact("trace.kernels"), Unknown):
        remarks.append(NO_KERNELS)
    facts = {
        name: fact.value for name, fact in record.facts.items() if not isinstance(fact, Unknown)
    }
    facts["kernels"] = [event.data for event in record.events[:50]]
    # the checks of a run say nothing of a trace, which holds no facts of one
    of_traces = {f"PREC04{n}" for n in range(8)} | {"WATCH"}
    judged = tuple(outcome for outcome in report.outcomes if outcome.code in of_traces)
    return replace(report, outcomes=judged, remarks=tuple(remarks), facts={**report.facts, **facts})


def classify(
    names: Iterable[str], triton_cache: str | os.PathLike[str] | None = None
) -> list[dict[str, Any]]:
    """What each kernel name tells, in the same order; a Triton cache decides where it holds one."""
    from reefwatch.data import kernels

    told = [kernels.classify(name) for name in names]
    if triton_cache is not None:
        from reefwatch.gather.precision.triton_cache import Cache

        cache = Cache(Path(triton_cache))
        told = [cache.decide(kernel) for kernel in told]
    return [dict(kernel.as_dict()) for kernel in told]


def names_in(path: str) -> list[str]:
    """The names in a file, one a line, blank lines left out; `-` is stdin. Raises UsageError."""
    import sys

    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot open {path!r}: {error.strerror or error}") from None
    if b"\0" in raw:
        raise UsageError(f"{path}: not a text file with one kernel name a line")
    return [line for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]
