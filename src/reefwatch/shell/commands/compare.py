"""`reefwatch compare REF REF`"""

from __future__ import annotations

import argparse
import sys

from reefwatch.shell import options, screen


def parser() -> argparse.ArgumentParser:
    """The options of `compare`."""
    made = argparse.ArgumentParser(
        "reefwatch compare",
        description="Two references that were recorded apart (run --record), on any devices, "
        "versions or configurations: the second is judged by the first.",
        allow_abbrev=False,
    )
    made.add_argument("one", metavar="REF", help="the trusted one")
    made.add_argument("two", metavar="REF", help="the other one")
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    made.add_argument("--max-size", type=options.size, metavar="64GiB", help="of what is read")
    options.judging(made)
    options.files(made, "html", "junit", "sarif")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from pathlib import Path

    from reefwatch.api.compare import compare
    from reefwatch.api.session import render, write
    from reefwatch.core.report import exit_code
    from reefwatch.show import divergence

    given = parser().parse_args(argv)
    options.targets(given, "html", "junit", "sarif")
    report = compare(
        given.one, given.two, most=given.max_size, config=given.config, baseline=given.baseline
    )
    for kind in ("html", "junit", "sarif"):
        if getattr(given, kind) is not None:
            write(kind, Path(getattr(given, kind)), report)
    if given.json:
        print(render("json", report).rstrip("\n"))
    else:
        shown = divergence.text(report.records[0])
        print(
            "\n\n".join(part for part in (shown, screen.text(report, sys.stdout)) if part).rstrip()
        )
    return exit_code(report, options.policy(given))
