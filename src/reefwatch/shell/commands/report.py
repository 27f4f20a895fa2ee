"""`reefwatch report DIR...`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reefwatch.core.errors import UsageError
from reefwatch.shell import options, screen
from reefwatch.shell.cli import say


def parser() -> argparse.ArgumentParser:
    """The options of `report`."""
    made = argparse.ArgumentParser(
        "reefwatch report",
        description="Judge recorded runs again, all ranks together, and show the report.",
        allow_abbrev=False,
    )
    made.add_argument("folders", nargs="+", metavar="DIR", help="a run's folder, or several")
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    made.add_argument(
        "--write-baseline", metavar="FILE", help="be silent about today's findings from now on"
    )
    made.add_argument("--reason", default="", metavar="TEXT", help="why, for --write-baseline")
    options.judging(made)
    options.files(made, "html", "junit", "sarif")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch import api
    from reefwatch.api import judging
    from reefwatch.api.session import render, write
    from reefwatch.core.report import exit_code

    given = parser().parse_args(argv)
    if given.write_baseline is not None and not given.reason.strip():
        raise UsageError("a baseline needs a reason: --reason TEXT")
    options.targets(given, "html", "junit", "sarif", "write_baseline")
    report = api.report(
        given.folders, claim=given.claim, config=given.config, baseline=given.baseline
    )
    for kind in ("html", "junit", "sarif"):
        path = getattr(given, kind)
        if path is not None:
            try:
                write(kind, Path(path), report)
            except OSError as error:
                raise UsageError(f"cannot write {path!r}: {error.strerror or error}") from None
    if given.write_baseline is not None:
        count = judging.write_baseline(report, Path(given.write_baseline), given.reason)
        say(f"{given.write_baseline}: {count} finding{'' if count == 1 else 's'}")
    shown = render("json", report) if given.json else screen.text(report, sys.stdout)
    print(shown.rstrip("\n"))
    return exit_code(report, options.policy(given))
