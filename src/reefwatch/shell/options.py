"""How options are written, the same for every verb."""

from __future__ import annotations

import argparse
import math
import os
import re
from typing import Any

from reefwatch.core.errors import UsageError

_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """`20s`, `500ms`, `2m` or plain seconds."""
    match = re.fullmatch(r"([0-9.]+)\s*([a-z]*)", text.strip())
    number, unit = match.groups() if match else ("", "")
    try:
        return float(number) * _SECONDS[unit]
    except (KeyError, ValueError):
        raise UsageError(f"{text!r} is not a time such as 20s, from 0 on") from None


def size(text: str) -> int:
    """`24GiB`, `500MB` or plain bytes."""
    match = re.fullmatch(r"([0-9.]+)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    try:
        assert match is not None
        base = 1024 if match[3] else 1000
        return int(float(match[1]) * base ** " KMGT".index(match[2].upper() or " "))
    except (AssertionError, ValueError):
        raise UsageError(f"{text!r} is not a size such as 24GiB") from None


def share(text: str) -> float:
    """`2%` or `0.02`."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise UsageError(f"{text!r} is not a share such as 2%, from 0% to below 100%")
    return value


def judging(parser: argparse.ArgumentParser) -> None:
    """The options of every verb that ends in a verdict."""
    group = parser.add_argument_group("judging")
    claims = "fp32, tf32, bf16, fp16, bf16-mixed, fp16-mixed"
    group.add_argument("--claim", metavar="X", help=f"what the run claims: {claims}")
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
    group.add_argument(
        "--baseline",
        metavar="FILE",
        help="findings to be silent about, as `reefwatch report DIR --write-baseline` writes them "
        "(default: reefwatch-baseline.json, if it is there)",
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        help="configuration, in place of reefwatch.toml, else [tool.reefwatch] in pyproject.toml",
    )


def files(parser: argparse.ArgumentParser, *kinds: str) -> None:
    """The options that write the report to further files."""
    group = parser.add_argument_group("files")
    for kind in kinds:
        group.add_argument(f"--{kind}", metavar="FILE", help=f"also write the report as {kind}")


def targets(given: argparse.Namespace, *names: str) -> None:
    """Refuse files that cannot be written, before anything runs. Raises UsageError."""
    for name in names:
        path = getattr(given, name)
        if path is None:
            continue
        option = "--" + name.replace("_", "-")
        if not path:
            raise UsageError(f"{option}: give the name of a file")
        if os.path.isdir(path) or path.endswith(os.sep):
            raise UsageError(f"{option} {path}: a folder, not a file")
        if os.path.exists(path) and not os.path.isfile(path):
            continue  # a pipe or device, which is written to as it is
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise UsageError(f"{option} {path}: there is no folder {folder}")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"{option} {path}: the folder {folder} cannot be written")


def split_negative(argv: list[str], names: tuple[str, ...]) -> list[str]:
    """`--exam -3s` as `--exam=-3s`, so that the value is told to be wrong and not missing."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] in names and re.match(r"-[0-9.]", word):
            joined[-1] = f"{joined[-1]}={word}"
        else:
            joined.append(word)
    return joined


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
