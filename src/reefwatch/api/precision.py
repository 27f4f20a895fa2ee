"""`reefwatch precision`: the experiment, judged."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reefwatch.api.settings import Settings
from reefwatch.core.errors import UsageError
from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record
from reefwatch.core.report import Report

POLICIES = ("cuda", "rocm")


def precision(
    argv: Sequence[str],
    *,
    module: bool = False,
    claim: str | None = None,
    rounds: int = 12,
    fits: int | None = None,
    policy: str = "",
    profile: bool = False,
    signatures: int = 8,
    out: str | os.PathLike[str] | None = None,
    scrub: bool = True,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Run the script's steps in fp32, as asked and at their best, in turn; what that tells.

    The run is changed, so it is not the user's: it stops when enough was measured. With `policy`
    the autocast policy of another device is replayed, and all is a prediction. `fits` is the
    memory of a card in bytes. At the end the costliest `signatures` ops are timed alone, in fp32,
    bf16 and fp16. Raises UsageError for what cannot be run, ReefwatchError when the
    script fails by itself.
    """
    from reefwatch.api import judging
    from reefwatch.experiments.precision.measure import measure
    from reefwatch.gather import runner
    from reefwatch.store import folder

    settings = Settings.of(claim, out=out, config=config, baseline=baseline, scrub=scrub)
    if policy and policy not in POLICIES:
        raise UsageError(f"{policy!r} is not a policy that is known; known: {', '.join(POLICIES)}")
    if rounds < 1:
        raise UsageError("give at least one round")
    program = runner.prepare(argv, module)
    silences = judging.silences(settings, Path.cwd())
    run_id = folder.run_id(os.environ)
    made = folder.new(settings.out, f"precision-{program.name}", 0)
    say(
        "an experiment: the steps are run with changed precision, and the script stops when "
        "enough was measured"
    )
    record = measure(
        argv,
        made,
        _header(argv, run_id),
        lambda path: judging.read([path])[0],
        module=module,
        claim=settings.claim or "",
        rounds=rounds,
        policy=policy,
        profile=profile,
        signatures=signatures,
        scrub=scrub,
        say=say,
    )
    record = _with(record, "precision.fits", fits, "bytes", "--fits")
    report = judging.judged("precision", [record], None, silences, facts={"folder": str(made)})
    return replace(report, outcomes=tuple(o for o in report.outcomes if _ours(o.code)))


def _ours(code: str) -> bool:
    return code.startswith(("PREC", "WATCH"))


def _with(record: Record, name: str, value: Any, unit: str, source: str) -> Record:
    if value is None:
        return record
    fact = Evidence(name, value, unit, source)
    return replace(record, facts={**record.facts, name: fact})


def _header(argv: Sequence[str], run_id: str) -> Mapping[str, Any]:
    from datetime import datetime, timezone

    import reefwatch

    return {
        "reefwatch": reefwatch.__version__,
        "run_id": run_id,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "argv": list(argv),
        "cwd": os.getcwd(),
        "script": argv[0],
        "python": sys.version.split()[0],
        "rank": 0,
        "world": 1,
        "local_rank": 0,
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "options": {},
    }
