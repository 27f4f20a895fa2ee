"""`reefwatch compile-check [options] FILE.py:factory`"""

from __future__ import annotations

import argparse
import sys

from reefwatch.shell import options, screen
from reefwatch.shell.cli import say


def parser() -> argparse.ArgumentParser:
    """The options and the target."""
    made = argparse.ArgumentParser(
        "reefwatch compile-check",
        usage="reefwatch compile-check [options] FILE.py:factory",
        description="Does torch.compile keep what a callable computes? factory() gives (callable, "
        "inputs) or (callable, [inputs, ...]); inputs at the edges are made from them.",
        allow_abbrev=False,
    )
    made.add_argument("target", metavar="FILE.py:factory")
    made.add_argument("--no-edges", action="store_true", help="the given inputs alone")
    made.add_argument("--strict-casts", action="store_true", help="casts are to round as written")
    made.add_argument("--referee", choices=("float64", "eager"), default="float64")
    made.add_argument("--backend", default="inductor", metavar="NAME")
    made.add_argument(
        "--locate",
        type=options.seconds,
        default=120.0,
        metavar="120s",
        help="time for the stage, op and repro of mismatches; 0s for none",
    )
    made.add_argument("--out", metavar="DIR", help="folder for repros")
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    options.judging(made)
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch.api.compiled import check
    from reefwatch.api.session import render
    from reefwatch.core.report import exit_code

    given = parser().parse_args(argv)
    report = check(
        given.target,
        edges=not given.no_edges,
        strict_casts=given.strict_casts,
        referee=given.referee,
        locate=given.locate,
        backend=given.backend,
        out=given.out,
        config=given.config,
        baseline=given.baseline,
        say=say if sys.stderr.isatty() else None,
    )
    shown = render("json", report) if given.json else screen.text(report, sys.stdout)
    print(shown.rstrip("\n"))
    return exit_code(report, options.policy(given))
