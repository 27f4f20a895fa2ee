"""`reefwatch report DIR...`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reefwatch.core.errors import UsageError
from reefwatch.shell import options, screen


def parser() -> argparse.ArgumentParser:
    """The options of `report`."""
    made = argparse.ArgumentParser(
        "reefwatch report",
        description="Judge recorded runs again, all ranks together, and show the report.",
        allow_abbrev=False,
    )
    made.add_argument("folders", nargs="+", metavar="DIR", help="a run's folder, or several")
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    options.judging(made)
    options.files(made, "html", "junit", "sarif")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch import api
    from reefwatch.api.session import render, write
    from reefwatch.core.report import exit_code

    given = parser().parse_args(argv)
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
    shown = render("json", report) if given.json else screen.text(report, sys.stdout)
    print(shown.rstrip("\n"))
    return exit_code(report, options.policy(given))
