"""What the pytest fixtures ask: did it fall back, is it right in float64, compiled, by a reference.

Each call runs the tested callable, returns its result, and raises `Departs` when it is wrong or
`Unproven` when that could not be told; never both quietly.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.core.finding import Outcome, Verdict
from reefwatch.core.record import Record
from reefwatch.core.report import Report

EXAM = 60.0
"""Seconds that the watch of one call may take."""


class Departs(AssertionError):
    """The callable is wrong; the text says where and how much."""


class Unproven(Exception):
    """It could not be told whether the callable is right; the text says why."""


def need(*names: str) -> None:
    """Raises Unproven when a package is not installed or a watch is on already."""
    for name in names:
        if find_spec(name) is None:
            raise Unproven(f"{name} is not installed")
    from reefwatch.api.session import running

    if running() is not None:
        raise Unproven("another watch is on in this process")


def no_fallback(folder: Path, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call it; no attention on the math path, no frame left to eager, no naive kernel."""
    need("torch")
    out, report, names = _watched(folder, function, args, kwargs, profiled=True)
    record = report.records[0]
    found, seen = _attention(record)
    frames = [e.data for e in record.events if e.kind == "compile.frame"]
    compiled = getattr(record.fact("compile.used"), "value", False) is True
    for code in ("COMP006", "COMP007"):
        found += [str(f.message) for o in _of(report, code) for f in o.findings]
    from reefwatch.data.kernels import classify

    told = {name: classify(name).naive for name in names}
    found += [f"a naive kernel ran: {name}" for name, naive in told.items() if naive == "yes"]
    if found:
        raise Departs("a fallback was taken\n" + "\n".join(f"  {line}" for line in found))
    if not (seen or compiled or frames or "no" in told.values()):
        raise Unproven("no attention, no compiled code and no known kernel of a GPU was seen")
    return out


def _attention(record: Record) -> tuple[list[str], bool]:
    """(calls on the math path, whether any attention was seen)."""
    fact = record.fact("precision.attention")
    paths = {} if isinstance(fact, Unknown) else fact.value or {}
    told = []
    for event in record.events:
        row = event.data
        if event.kind != "precision.attention" or row["path"] != "math":
            continue
        why = f": {'; '.join(row['reasons'])}" if row["reasons"] else ""
        told.append(
            f"attention of q {row['q']} in {row['dtype']} took the math path at "
            f"{os.path.basename(row['file'])}:{row['line']}{why}"
        )
    return told, bool(paths)


def matches_fp64(folder: Path, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call it; each op in it is as near to the same op in float64 as rounding allows."""
    need("torch", "numpy")
    out, report, _ = _watched(folder, function, args, kwargs, truth=True)
    codes = ("NUM001", "NUM002")
    broken = [o for code in codes for o in _of(report, code) if o.verdict is Verdict.BROKEN]
    if broken:
        lines = [
            f"  {f.message}{_at(f.place)}" + (f"\n    {f.why}" if f.why else "")
            for o in broken
            for f in o.findings
        ]
        raise Departs("ops depart from float64\n" + "\n".join(lines))
    elements = _of(report, "NUM001")
    if not elements or elements[0].verdict is not Verdict.HELD:
        why = elements[0].reason if elements else report.unclaimed.get("NUM001", "")
        raise Unproven(why or "no op was judged")
    return out


def compiled_matches(
    folder: Path, function: Callable[..., Any], *args: Any, backend: Any = "inductor"
) -> Any:
    """Compile and call it; results, gradients, state are those of the original. Returns those."""
    need("torch")
    from reefwatch.api.compiled import Memory, _judged
    from reefwatch.experiments.compiled import checking
    from reefwatch.gather.compiled.trial import Rules

    code = getattr(function, "__code__", None)
    place = ("", 0) if code is None else (code.co_filename, code.co_firstlineno)
    memory, rules = Memory(), Rules("float64", False)
    with _without_traces():
        checking.check(
            function, [args], place, memory, folder,
            rules=rules, odd=False, locate=30.0, backend=backend, say=lambda text: None,
        )  # fmt: skip
    report = _judged("compile-check", memory.record())
    numeric = [o for o in report.outcomes if o.code in ("COMP001", "COMP002", "COMP003", "COMP004")]
    lines = [
        f"  {f.message}{_at(f.place)}" + (f"\n    {f.fix}" if f.fix else "")
        for o in numeric
        if o.verdict is Verdict.BROKEN
        for f in o.findings
    ]
    if lines:
        raise Departs("compiled code departs from the original\n" + "\n".join(lines))
    results = next((o for o in numeric if o.code == "COMP001"), None)
    if results is None or results.verdict is not Verdict.HELD:
        raise Unproven("nothing was compiled" if results is None else results.reason)
    return function(*args)


def matches_reference(
    folder: Path,
    function: Callable[..., Any],
    *args: Any,
    reference: Callable[..., Any] | str | os.PathLike[str],
    **kwargs: Any,
) -> Any:
    """Call it; it gives what another callable gives, or follows a recorded run.

    A callable is run in float64 too: what is tested may be off six times what the reference is
    off in its own dtype (docs/compile.md, the rule), its gradients alike. A path is a reference
    that `reefwatch run --record` or `reefwatch.watch(record=...)` has written.
    """
    need("torch")
    if callable(reference):
        from reefwatch.experiments.compiled import pair

        out, text, why = pair.compare(function, reference, args, kwargs)
        if text:
            raise Departs(text)
        if why:
            raise Unproven(why)
        return out
    path = Path(reference)
    if not path.exists():
        raise Unproven(f"there is no reference at {path}: record it with reefwatch.watch(record=)")
    out, report, _ = _watched(folder, function, args, kwargs, against=path)
    ours = [o for o in report.outcomes if o.code.startswith("REF")]
    lines = [
        f"  {o.code} {f.message}{_at(f.place)}"
        for o in ours
        if o.verdict is Verdict.BROKEN
        for f in o.findings
    ]
    if lines:
        raise Departs(f"it does not follow {path.name}\n" + "\n".join(lines))
    if not any(o.verdict is Verdict.HELD for o in ours):
        why = next((o.reason for o in ours), "nothing of the reference was compared")
        raise Unproven(why)
    return out


def _watched(
    folder: Path,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    *,
    profiled: bool = False,
    **asked: Any,
) -> tuple[Any, Report, list[str]]:
    """(the result, the report of a watch of the call, names of the kernels that a GPU ran)."""
    import torch

    import reefwatch

    names: list[str] = []
    profile: Any = nullcontext()
    if profiled and torch.cuda.is_available():
        profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    with profile, reefwatch.watch(out=folder, exam=EXAM, locate=0.0, **asked) as watch:
        out = function(*args, **kwargs)
        if profiled and torch.cuda.is_available():
            torch.cuda.synchronize()
    if profiled and torch.cuda.is_available():
        names = sorted({str(event.name) for event in profile.events()})
    return out, watch.report, names


@contextmanager
def _without_traces() -> Iterator[None]:
    """Dynamo's structured trace would fill pytest's captured log with empty lines."""
    traces = logging.getLogger("torch.__trace")
    before, traces.disabled = traces.disabled, True
    try:
        yield
    finally:
        traces.disabled = before


def _of(report: Report, code: str) -> list[Outcome]:
    return [outcome for outcome in report.outcomes if outcome.code == code]


def _at(place: Any) -> str:
    return f" ({place})" if str(place) else ""
