"""`reefwatch dist`, alone or under a launcher"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.shell import options, screen
from reefwatch.shell.cli import say

if TYPE_CHECKING:
    from reefwatch.core.report import Report


def parser() -> argparse.ArgumentParser:
    """The options of `dist`."""
    made = argparse.ArgumentParser(
        "reefwatch dist",
        description="Do collectives, DDP, FSDP and checkpoints do what they promise? On one "
        "machine with --nproc, else as each rank of a launch: torchrun ... -m reefwatch dist.",
        allow_abbrev=False,
    )
    made.add_argument("--nproc", type=_count, metavar="N", help="start N ranks here, with torchrun")
    made.add_argument("--backend", default="", metavar="gloo", help="gloo or nccl (also RCCL)")
    made.add_argument("--level", default="quick", metavar="quick", help="quick or full")
    made.add_argument("--phases", type=_words, default=(), metavar="A,B", help="only these phases")
    made.add_argument("--dtypes", type=_words, default=(), metavar="A,B", help="only these dtypes")
    made.add_argument("--collectives", type=_words, default=(), metavar="A,B", help="only these")
    made.add_argument("--sizes", type=_numbers, default=(), metavar="1,1003", help="elements")
    made.add_argument("--model", default="", metavar="M.py:factory", help="your model's parameters")
    made.add_argument("--bench", action="store_true", help="measure bandwidth too")
    made.add_argument("--seed", type=int, default=0, metavar="N", help="of the data; drawn without")
    made.add_argument(
        "--deadline", type=options.seconds, default=30.0, metavar="30s", help="for each step"
    )
    made.add_argument(
        "--meet", type=options.seconds, default=60.0, metavar="60s", help="for all ranks to come"
    )
    made.add_argument("--inject", default="", help=argparse.SUPPRESS)
    made.add_argument("--out", metavar="DIR", help="the record's folder")
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    made.add_argument(
        "--outliers", metavar="FILE", help="write hosts and ranks that stand out, as JSON"
    )
    made.add_argument("--no-scrub", action="store_true", help="keep user, host and secrets as read")
    options.judging(made)
    options.files(made, "html", "junit", "sarif")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch.api import dist
    from reefwatch.core import launch

    given = parser().parse_args(argv)
    options.targets(given, "html", "junit", "sarif", "outliers")
    wishes = dist.Wishes(
        given.backend,
        given.level,
        given.phases,
        given.dtypes,
        given.collectives,
        given.sizes,
        given.model,
        given.deadline,
        given.meet,
        given.seed,
        given.bench,
        given.inject,
    ).checked()
    here = launch.read(os.environ)
    started = "RANK" in os.environ or here.world > 1
    if given.nproc is not None and not (started and dist.CODE in os.environ):
        if started:
            raise UsageError(
                "--nproc starts ranks, and this is one of a launch already: leave it out"
            )
        return dist.start(argv, given.nproc, say, given.meet)
    if not started:
        raise UsageError(
            "nothing to try with one process: give --nproc 2, or start it with torchrun"
        )
    try:
        told = dist.take_part(wishes, given.out, not given.no_scrub, say)
    except ReefwatchError as error:
        if here.rank:  # each rank tells what it alone cannot reach; rank 0 is told by the command
            say(str(error))
        raise
    shown = None if told.report is None else _show(told.report, given)
    code = told.agree(shown)
    if dist.CODE in os.environ:
        return 0
    return code


def _show(report: Report, given: argparse.Namespace) -> int:
    from reefwatch.api import dist
    from reefwatch.api.session import render, write
    from reefwatch.core.report import exit_code
    from reefwatch.show import dist as table

    for kind in ("html", "junit", "sarif"):
        path = getattr(given, kind)
        if path is not None:
            try:
                write(kind, Path(path), report)
            except OSError as error:
                say(f"cannot write {path!r}: {error.strerror or error}")
    if given.outliers:
        Path(given.outliers).write_text(table.outliers(report), encoding="utf-8")
    if given.json:
        shown = render("json", report)
    else:
        shown = table.render(report) + "\n" + screen.text(report, sys.stdout)
    print(shown.rstrip("\n"), flush=True)
    code = exit_code(report, options.policy(given))
    path = os.environ.get(dist.CODE)
    if path:
        with suppress(OSError):
            Path(path + ".part").write_text(str(code))
            os.replace(path + ".part", path)
    return code


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{text!r} is not a number of processes, from 1 on")
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


def _numbers(text: str) -> tuple[int, ...]:
    words = _words(text)
    if not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"{text!r} is not a list of sizes such as 1,1003")
    return tuple(map(int, words))
