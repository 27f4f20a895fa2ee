"""`reefwatch bisect`: the first environment in which a run leaves its reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.core.finding import Finding, Severity, Verdict
from reefwatch.core.report import Report


def bisect(
    argv: Sequence[str],
    *,
    against: str | os.PathLike[str],
    envs: Sequence[str],
    module: bool = False,
    every: bool = False,
    truth: bool = False,
    exam: float = 60.0,
    most: int | None = None,
    out: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """The report of the first environment that leaves the reference, else of the last that holds.

    `envs` are folders of environments or interpreters, oldest first; each runs the script in a
    process of its own. Raises UsageError, UnreadableRecord; ReefwatchError when none could be run.
    """
    from reefwatch.api import judging
    from reefwatch.api.resume import header
    from reefwatch.api.settings import Settings
    from reefwatch.experiments.numerics import environments as tries
    from reefwatch.gather import runner
    from reefwatch.store import bundle, folder

    settings = Settings.of(out=out, against=against, config=config, baseline=baseline, exam=exam)
    candidates = tries.environments(envs)
    program = runner.prepare(argv, module)
    assert settings.against is not None
    bundle.Bundle(settings.against, most or bundle.MOST_SIZE)  # read before anything runs
    silences = judging.silences(settings, Path.cwd())
    made = folder.new(settings.out, f"bisect-{program.name}", 0)
    head = header(argv, folder.run_id(os.environ))
    plan = {
        "argv": list(argv),
        "module": module,
        "against": str(settings.against),
        "most": most,
        "truth": truth,
        "exam": exam,
        "header": head,
    }
    reports: dict[str, Report] = {}
    remarks: list[str] = []

    def leaves(one: tries.Environment) -> bool | None:
        say(f"{one.name}: the script follows the reference")
        place = folder.new(made / f"env-{len(reports) + len(remarks) + 1}", "", 0)
        trial = tries.tried(one, plan, place, lambda path: judging.read([path])[0])
        if trial.record is None:
            remarks.append(f"{one.name} was passed over: it {trial.why}")
            return None
        report = judging.judged("bisect", [trial.record], None, silences)
        ours = tuple(o for o in report.outcomes if o.code.startswith(("REF", "NUM", "WATCH")))
        reports[one.name] = replace(report, outcomes=ours, unclaimed={})
        broken = [o for o in ours if o.verdict is Verdict.BROKEN and o.severity >= Severity.ERROR]
        word = f"leaves it: {_first(broken)}" if broken else "holds"
        if not broken and all(o.verdict is Verdict.UNPROVEN for o in ours):
            remarks.append(f"{one.name} was passed over: nothing could be compared there")
            return None
        remarks.append(f"{one.name} (torch {trial.torch}) {word}")
        return bool(broken)

    found = tries.first_that_leaves(candidates, leaves, every)
    if not reports:
        raise ReefwatchError("none of the environments could be tried: " + "; ".join(remarks))
    last = next(one.name for one in reversed(candidates) if one.name in reports)
    report = reports[last if found is None else found.name]
    words = (
        "none of the environments that were tried leaves the reference"
        if found is None
        else f"the first environment that leaves the reference is {found.name}"
    )
    facts: dict[str, Any] = {"folder": str(made), "first": None if found is None else found.name}
    return replace(report, remarks=(words, *remarks, *report.remarks), facts=facts)


def _first(broken: Sequence[Any]) -> str:
    """The check and the op of the first finding."""
    finding: Finding = broken[0].findings[0]
    where = ", ".join(filter(None, (finding.place.module, finding.place.op)))
    return f"{broken[0].code} at {where or 'the loop'}"


def named(envs: Sequence[str]) -> list[str]:
    """`A,B` and several `--envs` as one list. Raises UsageError when a name comes twice."""
    names = [name.strip() for part in envs for name in part.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise UsageError("--envs: an environment is named twice")
    return names
