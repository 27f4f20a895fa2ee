"""How options are written, the same for every verb."""

from __future__ import annotations

import argparse
import math
import re
from typing import Any

_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """`20s`, `500ms`, `2m` or plain seconds."""
    match = re.fullmatch(r"([0-9.]+)\s*([a-z]*)", text.strip())
    try:
        assert match is not None
        return float(match[1]) * _SECONDS[match[2]]
    except (AssertionError, KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 20s") from None


def share(text: str) -> float:
    """`2%` or `0.02`."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 2%")
    return value


def judging(parser: argparse.ArgumentParser) -> None:
    """The options of every verb that ends in a verdict."""
    group = parser.add_argument_group("judging")
    group.add_argument("--claim", metavar="X", help="what the run claims: bf16-mixed, fp32, ...")
    group.add_argument(
        "--threshold",
        choices=("error", "warning"),
        default="error",
        help="the severity from which on a broken claim ends in exit 3 (default: error)",
    )
    group.add_argument(
        "--require-proof", action="store_true", help="exit 4 when something is unproven"
    )
    group.add_argument(
        "--fail-internal", action="store_true", help="exit 2 when a check or instrument errored"
    )
    group.add_argument("--baseline", metavar="FILE", help="findings to be silent about")
    group.add_argument("--config", metavar="FILE", help="configuration (default: reefwatch.toml)")


def files(parser: argparse.ArgumentParser, *kinds: str) -> None:
    """The options that write the report to further files."""
    group = parser.add_argument_group("files")
    for kind in kinds:
        group.add_argument(f"--{kind}", metavar="FILE", help=f"also write the report as {kind}")


def policy(given: argparse.Namespace) -> Any:
    """The exit-code rule that the options ask for."""
    from reefwatch.core.finding import Severity
    from reefwatch.core.report import ExitPolicy

    return ExitPolicy(
        Severity[given.threshold.upper()],
        given.require_proof,
        given.fail_internal,
        getattr(given, "exit_code", None) == "script",
    )
