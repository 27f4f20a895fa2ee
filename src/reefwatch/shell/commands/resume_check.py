"""`reefwatch resume-check [options] script args...`"""

from __future__ import annotations

import argparse
import shlex
import sys

from reefwatch.core.errors import UsageError
from reefwatch.shell import options, screen
from reefwatch.shell.cli import say
from reefwatch.shell.commands.run import split


def parser() -> argparse.ArgumentParser:
    """The options before the script; all that follows it is the script's."""
    made = argparse.ArgumentParser(
        "reefwatch resume-check",
        usage="reefwatch resume-check [options] (SCRIPT | -m MODULE) [args...]",
        description="Does save, load, continue equal the uninterrupted run? Runs the script, "
        "unchanged, three times in copies of the working folder: stopped after its first "
        "checkpoint, started again, and never stopped.",
        allow_abbrev=False,
    )
    made.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    made.add_argument(
        "--then",
        default="",
        metavar="ARGS",
        help='the script\'s own arguments for the second run, such as "--resume last.pt" '
        "(default: none, for a script that finds its checkpoint by itself)",
    )
    made.add_argument(
        "--first",
        default="",
        metavar="ARGS",
        help='the first run\'s, such as "--epochs 1" for a script that saves only at its end',
    )
    made.add_argument(
        "--stop-after",
        type=int,
        metavar="N",
        help="stop the first run after N updates (default: after its first checkpoint)",
    )
    made.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help="updates after the resumption to compare (default: as many as before it, 8 to 200)",
    )
    made.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="NAME",
        help="an entry of the working folder that is only read (data): linked, not copied",
    )
    made.add_argument("--out", metavar="DIR", help="folder for the records of the three runs")
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    options.judging(made)
    options.files(made, "html", "junit", "sarif")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from pathlib import Path

    from reefwatch.api.resume import resume_check
    from reefwatch.api.session import render, write
    from reefwatch.core.report import exit_code

    made = parser()
    ours, program = split(argv, made)
    given = made.parse_args(_joined(ours))
    options.targets(given, "html", "junit", "sarif")
    if given.module is None and not program:
        raise UsageError("nothing to run: give a script, or -m and a module")
    report = resume_check(
        program if given.module is None else [given.module, *program],
        module=given.module is not None,
        first=_words("--first", given.first),
        then=_words("--then", given.then),
        stop_after=given.stop_after,
        steps=given.steps,
        link=given.link,
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


def _joined(argv: list[str]) -> list[str]:
    """`--then --resume` as `--then=--resume`: its value is arguments, and may begin with dashes."""
    made: list[str] = []
    for word in argv:
        if made and made[-1] in ("--then", "--first"):
            made[-1] = f"{made[-1]}={word}"
        else:
            made.append(word)
    return made


def _words(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
