"""`reefwatch kernels FILE.py`"""

from __future__ import annotations

import argparse
import sys

from reefwatch.core.errors import UsageError
from reefwatch.shell import options, screen
from reefwatch.shell.cli import say


def parser() -> argparse.ArgumentParser:
    """The options of `kernels`."""
    made = argparse.ArgumentParser(
        "reefwatch kernels",
        description="Run the Triton kernels of a file on a virtual AMD GPU, without a card: its "
        "test functions if it has some, else its main. Each launch is compiled for each target, "
        "executed, and held against independent witnesses.",
        allow_abbrev=False,
    )
    made.add_argument("file", metavar="FILE.py", help="the file to run")
    made.add_argument(
        "--target", default="gfx1100", metavar="gfx1100,gfx942", help="default: gfx1100"
    )
    made.add_argument(
        "--triton",
        default="",
        metavar="3.7,3.8",
        help="versions, each installed apart when it is missing (default: the one that is here)",
    )
    made.add_argument(
        "--reference",
        action="append",
        default=[],
        metavar="KERNEL=FUNC",
        help="a function of the file that says what a kernel should give; it takes the kernel's "
        "arguments by name, floats in f64, and returns the output or a dict of them",
    )
    made.add_argument(
        "--launches",
        type=int,
        default=2,
        metavar="N",
        help="launches of each compiled kernel that are held against witnesses (default: 2)",
    )
    made.add_argument(
        "--most",
        type=int,
        default=4096,
        metavar="N",
        help="workgroups of a launch that are run at most (default: 4096)",
    )
    made.add_argument(
        "--timeout", type=options.seconds, default=3600.0, metavar="1h", help="for each version"
    )
    made.add_argument(
        "--out", metavar="DIR", help="write a reproducer and an issue text of each broken kernel"
    )
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    options.judging(made)
    options.files(made, "html", "junit", "sarif")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from pathlib import Path

    from reefwatch.api.kernels import kernels
    from reefwatch.api.session import render, write
    from reefwatch.core.report import exit_code
    from reefwatch.show import kernel_verdicts

    given = parser().parse_args(argv)
    options.targets(given, "html", "junit", "sarif")
    if given.launches < 1 or given.most < 1:
        raise UsageError("--launches and --most: give a number from 1 on")
    report = kernels(
        given.file,
        targets=given.target.split(","),
        versions=[version.strip() for version in given.triton.split(",") if version.strip()],
        references=_references(given.reference),
        launches=given.launches,
        most=given.most,
        timeout=given.timeout,
        out=given.out,
        config=given.config,
        baseline=given.baseline,
        say=say,
    )
    for kind in ("html", "junit", "sarif"):
        if getattr(given, kind) is not None:
            write(kind, Path(getattr(given, kind)), report)
    if given.json:
        print(render("json", report).rstrip("\n"))
    else:
        print(kernel_verdicts.text(report.facts), end="")
        print(screen.text(report, sys.stdout).rstrip())
    return exit_code(report, options.policy(given))


def _references(pairs: list[str]) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    for kernel, equals, function in split:
        if not (kernel and equals and function):
            raise UsageError(f"--reference {kernel}{equals}{function}: give KERNEL=FUNC")
    return {kernel: function for kernel, _, function in split}
