"""`reefwatch ci`"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from reefwatch.shell.cli import say


def parser() -> argparse.ArgumentParser:
    """The options of `ci`."""
    made = argparse.ArgumentParser(
        "reefwatch ci",
        description="Workflow files for ROCm runners, and an upstream suite under watch.",
        allow_abbrev=False,
    )
    verbs = made.add_subparsers(dest="what", required=True, metavar="{init,suite}")
    init = verbs.add_parser(
        "init", help="write workflow files: a job without a GPU, and one on a ROCm runner"
    )
    init.add_argument(
        "--for",
        dest="kind",
        required=True,
        choices=("lightning", "transformers", "kernel-library", "generic"),
    )
    init.add_argument("--host", choices=("github", "gitlab"), default="github")
    init.add_argument("--gpu", default="RX 7900 XTX", metavar="CARD", help="the runner's card")
    init.add_argument("--target", default="gfx1100", metavar="GFX", help="for Triton kernels")
    init.add_argument("--tests", default="tests", metavar="PATH")
    init.add_argument("--out", default=".", metavar="DIR", help="the repository (default: here)")
    init.add_argument("--force", action="store_true", help="write over files that are there")
    suite = verbs.add_parser(
        "suite",
        help="run an upstream test suite unchanged, each test under watch",
        epilog="what follows `--` goes to pytest; exit 3 when a test fails that is not known to",
    )
    suite.add_argument("--tests", required=True, metavar="PATH")
    suite.add_argument("--known", metavar="FILE", help="known failures (TOML), with addresses")
    suite.add_argument("--no-watch", action="store_true", help="run it plain, for comparison")
    suite.add_argument(
        "--exam",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="that each test may be slowed down by (default: 2)",
    )
    suite.add_argument("--json", metavar="FILE", help="write all rows there")
    suite.add_argument("--markdown", metavar="FILE", help="write the table there too")
    suite.add_argument("--junit", metavar="FILE", help="write tests and contracts there, merged")
    suite.add_argument("--html", metavar="FILE", help="the same as one page")
    suite.add_argument(
        "--findings",
        action="store_true",
        help="exit 3 for what the contracts find at error level, too",
    )
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    cut = argv.index("--") if "--" in argv else len(argv)
    given = parser().parse_args(argv[:cut])
    return _init(given) if given.what == "init" else _suite(given, argv[cut + 1 :])


def _init(given: argparse.Namespace) -> int:
    from reefwatch.api import workflows

    for path in workflows.write(
        given.kind,
        given.host,
        Path(given.out),
        gpu=given.gpu,
        target=given.target,
        tests=given.tests,
        force=given.force,
    ):
        say(f"written: {path}")
    return 0


def _suite(given: argparse.Namespace, more: list[str]) -> int:
    from reefwatch.api import ci
    from reefwatch.show import suite as show
    from reefwatch.show import suite_files as files

    known = ci.known_failures(given.known)
    told = ci.suite(given.tests, more, known=known, watch=not given.no_watch, exam=given.exam)
    text = show.render(told)
    print(text, end="")
    if given.markdown:
        Path(given.markdown).write_text(text, encoding="utf-8")
    if given.json:
        Path(given.json).write_text(json.dumps(told.plain(), indent=1) + "\n", encoding="utf-8")
    for file, render in ((given.junit, files.junit), (given.html, files.html)):
        if file:
            Path(file).write_text(render(told), encoding="utf-8")
    errors = [f for found in told.broken().values() for f in found if f["severity"] == "error"]
    bad = bool(told.new_failures) or (given.findings and bool(errors))
    if told.new_failures:
        print(f"{len(told.new_failures)} new failures", file=sys.stderr)
    return 3 if bad else 0
