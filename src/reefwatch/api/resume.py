"""`reefwatch resume-check`: three runs of the script, compared and judged."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UsageError
from reefwatch.core.record import Record
from reefwatch.core.report import Report


def resume_check(
    argv: Sequence[str],
    *,
    module: bool = False,
    first: Sequence[str] = (),
    then: Sequence[str] = (),
    stop_after: int | None = None,
    steps: int | None = None,
    link: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Does save, load, continue equal the uninterrupted run of this script?

    The script uses its own save and load: it is stopped after its first checkpoint (or after
    `stop_after` updates), started again with its own arguments for that (`then`), and run once
    without a stop. Each line of runs works in a copy of the working folder; entries named in `link`
    are linked instead. Raises UsageError for what cannot be run, ReefwatchError when a run fails.
    """
    from reefwatch.api import judging
    from reefwatch.api.settings import Settings
    from reefwatch.core import launch
    from reefwatch.experiments.numerics.continuation import facts
    from reefwatch.experiments.numerics.resume import Asked, Runs
    from reefwatch.gather import runner
    from reefwatch.store import folder

    if launch.read(os.environ).world > 1:
        raise UsageError("resume-check starts its runs itself: not from a launcher")
    for name, number in (("--stop-after", stop_after), ("--steps", steps)):
        if number is not None and number < 1:
            raise UsageError(f"{name} counts updates, from 1 on, not {number}")
    settings = Settings.of(out=out, config=config, baseline=baseline)
    program = runner.prepare(argv, module)
    silences = judging.silences(settings, Path.cwd())
    made = folder.new(settings.out, f"resume-{program.name}", 0)
    asked = Asked(tuple(argv), module, tuple(first), tuple(then), stop_after, steps, tuple(link))
    head = header(argv, folder.run_id(os.environ))
    runs = Runs(asked, made, head, lambda path: judging.read([path])[0], say)
    told = facts(*runs.three())
    record = Record({**head, "kind": "resume"}, told)
    report = judging.judged("resume-check", [record], None, silences, facts={"folder": str(made)})
    return report


def header(argv: Sequence[str], run_id: str) -> dict[str, Any]:
    """The header of a record of runs that this process starts."""
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
