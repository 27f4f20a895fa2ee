"""`reefwatch trace FILE` and `reefwatch trace --names FILE`"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from reefwatch.core.errors import UsageError
from reefwatch.shell import options, screen
from reefwatch.shell.cli import say

LARGE = 16 << 20
"""Bytes from which on reading takes seconds."""


def parser() -> argparse.ArgumentParser:
    """The options of `trace`."""
    made = argparse.ArgumentParser(
        "reefwatch trace",
        description="Audit a profiler trace (torch.profiler, Chrome format) taken anywhere: which "
        "library and dtype took the device time, and what ran on a slow path.",
        epilog="Record it with record_shapes=True, with_stack=True, with_modules=True to be told "
        "dtypes of operands, modules and lines; a line is the first of the function, as torch's "
        "profiler writes it.",
        allow_abbrev=False,
    )
    made.add_argument("file", nargs="?", metavar="FILE", help="the trace: .json or .json.gz")
    made.add_argument(
        "--names", metavar="FILE", help="instead: classify kernel names, one a line (- is stdin)"
    )
    made.add_argument("--json", action="store_true", help="the answer as JSON on stdout")
    made.add_argument(
        "--triton-cache",
        metavar="DIR",
        help="a Triton cache; its machine code decides what Triton kernels of the trace are",
    )
    options.judging(made)
    options.files(made, "html", "junit", "sarif")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    given = parser().parse_args(argv)
    if (given.file is None) == (given.names is None):
        raise UsageError("give one trace file, or --names and a file of kernel names")
    if given.names is not None:
        return _names(given.names, given.json, given.triton_cache)
    return _audit(given)


def _names(path: str, as_json: bool, cache: str | None) -> int:
    from reefwatch.api import trace

    told = trace.classify(trace.names_in(path), cache)
    if as_json:
        import json

        print(json.dumps({"schema": 1, "command": "trace", "names": told}, indent=1))
        return 0
    from reefwatch.show import kernels

    print(kernels.names(told), end="")
    return 0


def _announce(path: str) -> None:
    """Say how much there is to read, where that takes more than a moment."""
    try:
        size = os.path.getsize(path)
    except OSError:
        return
    if size > LARGE:
        say(f"{path}: reading {size / 2**20:.0f} MiB")


def _audit(given: argparse.Namespace) -> int:
    from reefwatch.api import trace
    from reefwatch.api.session import render, write
    from reefwatch.core.report import exit_code
    from reefwatch.show import kernels

    options.targets(given, "html", "junit", "sarif")
    _announce(given.file)
    report = trace.audit(
        given.file,
        claim=given.claim,
        triton_cache=given.triton_cache,
        config=given.config,
        baseline=given.baseline,
    )
    for kind in ("html", "junit", "sarif"):
        path = getattr(given, kind)
        if path is not None:
            try:
                write(kind, Path(path), report)
            except OSError as error:
                raise UsageError(f"cannot write {path!r}: {error.strerror or error}") from None
    if given.json:
        print(render("json", report).rstrip("\n"))
    else:
        print(kernels.shares(report.facts), end="")
        print(screen.text(report, sys.stdout).rstrip("\n"))
    return exit_code(report, options.policy(given))
