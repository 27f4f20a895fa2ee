"""`reefwatch bisect --against REF --envs A,B,C script args...`"""

from __future__ import annotations

import argparse
import sys

from reefwatch.core.errors import UsageError
from reefwatch.shell import options, screen
from reefwatch.shell.cli import say
from reefwatch.shell.commands.run import split


def parser() -> argparse.ArgumentParser:
    """The options before the script; all that follows it is the script's."""
    made = argparse.ArgumentParser(
        "reefwatch bisect",
        usage="reefwatch bisect --against REF --envs A,B,C [options] (SCRIPT | -m MODULE) [args]",
        description="The first environment (torch, Triton, ROCm) in which a script leaves its "
        "reference, and the op. The environments come oldest first; the search halves.",
        allow_abbrev=False,
    )
    made.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    made.add_argument("--against", metavar="REF", help="the reference (run --record)")
    made.add_argument(
        "--envs",
        action="append",
        default=[],
        metavar="A,B,C",
        help="folders of virtual environments, or python executables, oldest first",
    )
    made.add_argument("--every", action="store_true", help="try all of them, in order")
    made.add_argument("--truth", action="store_true", help="also judge each op by itself")
    made.add_argument("--exam", type=options.seconds, default=60.0, metavar="60s")
    made.add_argument("--max-size", type=options.size, metavar="64GiB", help="of what is read")
    made.add_argument("--out", metavar="DIR", help="folder for the records")
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    options.judging(made)
    options.files(made, "html", "junit", "sarif")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from pathlib import Path

    from reefwatch.api.bisect import bisect, named
    from reefwatch.api.session import render, write
    from reefwatch.core.report import exit_code

    made = parser()
    ours, program = split(argv, made)
    given = made.parse_args(ours)
    options.targets(given, "html", "junit", "sarif")
    if not given.against or not given.envs:
        raise UsageError("give --against REF and --envs A,B,C")
    if given.module is None and not program:
        raise UsageError("nothing to run: give a script, or -m and a module")
    report = bisect(
        program if given.module is None else [given.module, *program],
        module=given.module is not None,
        against=given.against,
        envs=named(given.envs),
        every=given.every,
        truth=given.truth,
        exam=given.exam,
        most=given.max_size,
        out=given.out,
        config=given.config,
        baseline=given.baseline,
        say=say,
    )
    for kind in ("html", "junit", "sarif"):
        if getattr(given, kind) is not None:
            write(kind, Path(getattr(given, kind)), report)
    text = render("json", report) if given.json else screen.text(report, sys.stdout)
    print(text.rstrip("\n"))
    return exit_code(report, options.policy(given))
