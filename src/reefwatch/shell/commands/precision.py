"""`reefwatch precision [options] script args...`"""

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
        "reefwatch precision",
        usage="reefwatch precision [options] (SCRIPT | -m MODULE) [args...]",
        description="Did low precision pay? Runs the script's own steps in fp32, as asked, and at "
        "their best, in turn. An experiment: it changes what the script computes, and stops it "
        "when enough was measured.",
        allow_abbrev=False,
    )
    made.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    made.add_argument("--out", metavar="DIR", help="the run's folder (default: reefwatch-runs/...)")
    made.add_argument(
        "--rounds", type=_count, default=12, metavar="N", help="timed steps of each kind"
    )
    made.add_argument("--fits", type=_bytes, metavar="24GiB", help="memory of the card to fit into")
    made.add_argument(
        "--policy",
        default="",
        metavar="cuda",
        help="cuda or rocm: replay that device's autocast policy here, and predict",
    )
    made.add_argument(
        "--profile", action="store_true", help="time each op by a profiler on the CPU too"
    )
    made.add_argument(
        "--signatures",
        type=_number,
        default=8,
        metavar="N",
        help="costliest ops to time alone in fp32, bf16 and fp16 at the end; 0 for none",
    )
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    made.add_argument("--no-scrub", action="store_true", help="keep user, host and secrets as read")
    options.judging(made)
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch.api.precision import precision
    from reefwatch.api.session import render
    from reefwatch.core.report import exit_code
    from reefwatch.show import precision as table

    made = parser()
    ours, program = split(argv, made)
    given = made.parse_args(ours)
    if given.module is None and not program:
        raise UsageError("nothing to run: give a script, or -m and a module")
    report = precision(
        program if given.module is None else [given.module, *program],
        module=given.module is not None,
        claim=given.claim,
        rounds=given.rounds,
        fits=given.fits,
        policy=given.policy,
        profile=given.profile,
        signatures=given.signatures,
        out=given.out,
        scrub=not given.no_scrub,
        config=given.config,
        baseline=given.baseline,
        say=say,
    )
    if given.json:
        shown = render("json", report)
    else:
        shown = table.render(report) + "\n" + screen.text(report, sys.stdout)
    print(shown.rstrip("\n"))
    return exit_code(report, options.policy(given))


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{text!r} is not a number of steps, from 1 on")
    return int(text)


def _number(text: str) -> int:
    return 0 if text == "0" else _count(text)


def _bytes(text: str) -> int:
    """`24GiB`, `24GB`, `800MiB` or plain bytes."""
    units = {"gib": 2**30, "gb": 10**9, "mib": 2**20, "mb": 10**6, "kib": 2**10, "": 1}
    bare = text.strip().lower()
    number = bare.rstrip("abcdefghijklmnopqrstuvwxyz ")
    try:
        size = float(number) * units[bare[len(number) :].strip()]
    except (KeyError, ValueError):
        size = 0.0
    if not 0 < size < 2**60:
        raise UsageError(f"{text!r} is not a size such as 24GiB")
    return int(size)
