"""`reefwatch doctor`"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from reefwatch.core.errors import UsageError
from reefwatch.shell import options, screen
from reefwatch.shell.cli import say


def parser() -> argparse.ArgumentParser:
    """The options of `doctor`."""
    made = argparse.ArgumentParser(
        "reefwatch doctor",
        description="Look this machine over: cards, driver, device nodes, variables, wheels. "
        "Needs no ROCm tool and no torch, and changes nothing.",
        allow_abbrev=False,
    )
    made.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    made.add_argument(
        "--deep",
        action="store_true",
        help="also run small programs on each GPU, in child processes",
    )
    made.add_argument(
        "--limit",
        metavar="TIME",
        default="60s",
        help="the most that one program of --deep may take (default: 60s)",
    )
    made.add_argument("--root", metavar="DIR", help="look at a captured machine, a folder or a tar")
    made.add_argument(
        "--capture",
        metavar="FILE",
        help="write what doctor reads here, scrubbed: folder or .tar.gz",
    )
    made.add_argument("--port", metavar="DIR", help="scan a CUDA code base that is about to move")
    made.add_argument(
        "--scan", metavar="PATH", help="which GPU code a file, wheel or folder carries"
    )
    made.add_argument(
        "--gpu",
        metavar="GFX",
        action="append",
        default=[],
        help="the target that --scan is held against (default: the cards here)",
    )
    made.add_argument(
        "--uses",
        metavar="CARD",
        nargs="?",
        const="",
        help="what a card is good for, in plain words (default: the cards here)",
    )
    made.add_argument("--data", metavar="FILE", help="TOML rows laid over the shipped tables")
    group = made.add_argument_group("judging")
    group.add_argument("--threshold", choices=("error", "warning"), default="error")
    group.add_argument("--require-proof", action="store_true", help="exit 4 on what is unproven")
    group.add_argument("--fail-internal", action="store_true", help="exit 2 when a check errored")
    group.add_argument("--baseline", metavar="FILE", help="findings to be silent about")
    group.add_argument("--config", metavar="FILE", help="configuration, in place of reefwatch.toml")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch.api import machine
    from reefwatch.core.report import exit_code

    given = parser().parse_args(argv)
    limit = options.seconds(given.limit)
    _one_of(given, "port", "uses", "capture", "scan", "root")
    if given.gpu and given.scan is None:
        raise UsageError("--gpu goes with --scan")
    if given.data is not None and (given.port or given.scan or given.capture):
        raise UsageError("--data goes with the look at a machine and with --uses")
    if given.deep and (given.root or given.port):
        raise UsageError("--deep runs on this machine: it goes with neither --root nor --port")
    if given.capture is not None:
        count = machine.capture(given.capture)
        say(f"{given.capture}: {count} files, scrubbed; read them before you send them")
        return 0
    if given.uses is not None:
        return _uses(machine.uses(given.uses or None, given.data), given.json)
    judging = {"config": given.config, "baseline": given.baseline}
    if given.scan is not None:
        from reefwatch.api import scan

        report = scan.scan(given.scan, given.gpu, **judging)
    elif given.port is not None:
        report = machine.port(given.port, **judging)
    else:
        report = machine.doctor(
            root=given.root, data=given.data, deep=given.deep, limit=limit, say=say, **judging
        )
    _print(report, given.json)
    return exit_code(report, options.policy(given))


def _one_of(given: argparse.Namespace, *names: str) -> None:
    said = [name for name in names if getattr(given, name) is not None]
    if len(said) > 1:
        raise UsageError(f"--{said[0]} and --{said[1]}: give one of them")
    for name in ("port", "capture", "scan", "root", "data", "config", "baseline"):
        if getattr(given, name) == "":
            raise UsageError(f"--{name}: give a name")


def _style() -> dict[str, Any]:
    """How stdout can show text: colour, width, marks."""
    import os
    from shutil import get_terminal_size

    color = screen.is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
    width = min(get_terminal_size((100, 24)).columns, 120)
    return {"color": color, "width": width, "ascii": not screen.has_marks(sys.stdout)}


def _print(report: Any, as_json: bool) -> None:
    if as_json:
        from reefwatch.show import json

        print(json.render(report).rstrip("\n"))
    else:
        from reefwatch.show import machine

        print(machine.render(report, **_style()).rstrip("\n"))


def _uses(told: dict[str, Any], as_json: bool) -> int:
    if as_json:
        import json

        print(json.dumps({"schema": 1, "command": "doctor --uses", **told}, indent=2))
    else:
        from reefwatch.show import machine

        print(machine.uses(told, **_style()).rstrip("\n"))
    return 0
