"""`reefwatch lock [FILE]`, `--check [FILE]`, `--diff A B`"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UsageError
from reefwatch.shell import options, screen
from reefwatch.shell.cli import say

_NAME = "reefwatch.lock"


def parser() -> argparse.ArgumentParser:
    """The options of `lock`."""
    made = argparse.ArgumentParser(
        "reefwatch lock",
        description="Freeze kernel, driver, firmware, cards, ROCm, wheels, the bytes of all that "
        "computes, flags and variables; or name each drift from what was frozen (exit 3).",
        allow_abbrev=False,
    )
    made.add_argument("file", nargs="?", metavar="FILE", help=f"the lock (default: {_NAME})")
    made.add_argument("--check", action="store_true", help="name each drift from the lock")
    made.add_argument("--update", action="store_true", help="write anew a lock that is there")
    made.add_argument("--diff", nargs=2, metavar=("A", "B"), help="name what differs in two locks")
    made.add_argument(
        "--paranoid", action="store_true", help="read every file again, whatever its time says"
    )
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    group = made.add_argument_group("judging")
    group.add_argument("--threshold", choices=("error", "warning"), default="error")
    group.add_argument("--require-proof", action="store_true", help="exit 4 on what is unproven")
    group.add_argument("--fail-internal", action="store_true", help="exit 2 when a check errored")
    group.add_argument("--baseline", metavar="FILE", help="drifts to be silent about")
    group.add_argument("--config", metavar="FILE", help="configuration, in place of reefwatch.toml")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch.api import lock
    from reefwatch.core.report import exit_code

    given = parser().parse_args(argv)
    if given.diff and (given.check or given.file):
        raise UsageError("--diff takes two locks and nothing else")
    if given.update and (given.check or given.diff):
        raise UsageError("--update writes a lock: it goes with neither --check nor --diff")
    if given.file == "":
        raise UsageError("give the name of a lock")
    judging = {"config": given.config, "baseline": given.baseline}
    path = given.file or _NAME
    if given.diff:
        report = lock.diff(*given.diff, **judging)
    elif given.check:
        report = lock.check(path, paranoid=given.paranoid, **judging)
        files = report.facts["files"]
        say(f"{files['read']} files read, {files['known']} recognised by inode, size and time")
    else:
        return _write(lock, path, given.paranoid, given.update)
    _print(report, given.json)
    return exit_code(report, options.policy(given))


def _write(lock: Any, path: str, paranoid: bool, update: bool) -> int:
    if Path(path).is_dir():
        raise UsageError(f"{path}: a folder, not a file")
    if os.path.lexists(path) and not update:
        raise UsageError(
            f"{path} is there: --check names each drift from it, --update writes it anew"
        )
    frozen = lock.lock(path, lock.here(paranoid=paranoid))
    count = sum(len(part) for name, part in frozen.sections.items() if name != "unknown")
    say(f"{path}: {count} things locked, {frozen.files['read']} files read")
    for name, reason in frozen.sections["unknown"].items():
        say(f"not locked: {name} ({reason})")
    return 0


def _print(report: Any, as_json: bool) -> None:
    if as_json:
        from reefwatch.show import json

        print(json.render(report).rstrip("\n"))
    else:
        from reefwatch.show import machine

        width = screen.width(sys.stdout) if hasattr(screen, "width") else 100
        ascii_ = not screen.has_marks(sys.stdout)
        print(machine.render(report, color=False, width=width, ascii=ascii_).rstrip("\n"))
