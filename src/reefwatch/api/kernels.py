"""The verb `kernels`: a file's Triton kernels on the virtual GPU, against independent witnesses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UsageError
from reefwatch.core.record import Case, Record
from reefwatch.core.report import Report


def _silent(text: str) -> None: ...


def kernels(
    file: str | os.PathLike[str],
    *,
    targets: Sequence[str] = ("gfx1100",),
    versions: Sequence[str] = (),
    references: Mapping[str, str] | None = None,
    launches: int = 2,
    most: int = 4096,
    timeout: float = 3600.0,
    out: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] = _silent,
) -> Report:
    """Judge the launches of a file: its main, or its test functions.

    `versions` are Triton versions, each with a process of its own; none is the one that is
    installed. `references` names a function of the file by kernel. `out` is a folder for a
    reproducer and an issue text of each broken kernel. Raises UsageError.
    """
    from reefwatch.api import judging
    from reefwatch.api.settings import Settings
    from reefwatch.experiments.kernels import environments, matrix

    path = _readable(file)
    job = matrix.Job(
        path,
        modelled(targets),
        {"launches": launches, "workgroups": most},
        dict(references or {}),
        timeout,
    )
    asked = [environments.check(version) for version in versions] or [environments.here()]
    if not any(asked):
        raise UsageError("triton is not installed here: name a version with --triton 3.7")
    made = [environments.find(version, say) for version in dict.fromkeys(asked)]
    settings = Settings.of(config=config, baseline=baseline)
    silences = judging.silences(settings, Path.cwd())
    record = matrix.record(job, made, environments.home(), say)
    report = judged(record, silences)
    if out is None:
        return report
    return replace(report, facts={**report.facts, "written": write(record, Path(out))})


def judged(record: Record, silences: Sequence[Any] = ()) -> Report:
    """The report on a record of launches, with a verdict for each kernel among its facts."""
    from reefwatch.api import judging
    from reefwatch.judge import engine

    report = judging.judged("kernels", [record], silenced=silences, selected=engine.load("kernels"))
    return replace(report, facts={**report.facts, **told(record)})


def told(record: Record) -> dict[str, Any]:
    """The verdicts as the report's facts: one row for each kernel, version and target."""
    from reefwatch.judge import kernels as judge

    said = judge.verdicts(Case(record))
    history = judge.history(said)
    rows = [
        {
            "kernel": one.kernel,
            "target": one.target,
            "triton": one.version,
            "verdict": one.verdict.value,
            "reason": one.reason,
            "history": history.get((one.kernel, one.target), ""),
        }
        for one in said
    ]
    return {"kernels": rows, "matrix": Case(record).known("kernels.matrix", {})}


def write(record: Record, folder: Path) -> list[str]:
    """A reproducer and an issue text for each kernel that is broken. Raises UsageError."""
    from reefwatch.core.finding import Verdict
    from reefwatch.judge import kernels as judge
    from reefwatch.show import kernel_issue

    case = Case(record)
    said = judge.verdicts(case)
    history = judge.history(said)
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kernel in dict.fromkeys(s.kernel for s in said if s.verdict is Verdict.BROKEN):
            of = [one for one in said if one.kernel == kernel]
            stem = kernel.rpartition(".")[2]
            for name, text in kernel_issue.files(stem, of, history).items():
                (folder / name).write_text(text, encoding="utf-8")
                written.append(str(folder / name))
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror or error}") from None
    return written


def _readable(file: str | os.PathLike[str]) -> Path:
    import ast

    path = Path(file)
    try:
        ast.parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot open {str(path)!r}: {why}") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise UsageError(f"{path} is no Python{where}: {getattr(error, 'msg', error)}") from None
    return path


def modelled(targets: Iterable[str]) -> tuple[str, ...]:
    """The targets by name, each once. Raises UsageError for one that is not modelled."""
    from difflib import get_close_matches

    from reefwatch import isa

    named = tuple(dict.fromkeys(target.strip() for target in targets if target.strip()))
    if not named:
        raise UsageError(f"--target: give one of {', '.join(isa.targets())}")
    for target in named:
        if target not in isa.targets():
            near = get_close_matches(target, isa.targets(), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            known = ", ".join(isa.targets())
            raise UsageError(f"--target {target}: not a modelled target (known: {known}){hint}")
    return named
