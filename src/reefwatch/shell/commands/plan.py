"""`reefwatch plan`"""

from __future__ import annotations

import argparse
import sys

from reefwatch.core.errors import UsageError
from reefwatch.shell.cli import say

_WISHES = (
    *("gpu", "os", "python", "torch", "rocm", "channel", "libraries", "without", "torch_source"),
)
_FORMATS = ("text", "shell", "requirements", "libraries", "pyproject", "dockerfile", "json")


def parser() -> argparse.ArgumentParser:
    """The options of `plan`."""
    made = argparse.ArgumentParser(
        "reefwatch plan",
        description="One consistent set of driver, ROCm, torch and libraries for a card, with "
        "reasons and sources; or why there is none, and the nearest. Exit 3 when there is none.",
        allow_abbrev=False,
    )
    made.add_argument("--gpu", metavar="CARD", help='"RX 7900 XTX", gfx1100, 1002:744c, cpu')
    made.add_argument("--os", metavar="OS", help="ubuntu-24.04, rhel-9.6 ...")
    made.add_argument("--python", metavar="3.12")
    made.add_argument("--torch", metavar="2.13", help="default: the newest that fits")
    made.add_argument("--rocm", metavar="7.2", help="default: what fits torch")
    made.add_argument("--channel", choices=("upstream", "amd"), help="whose wheels for ROCm")
    made.add_argument("--with", dest="libraries", metavar="A,B", help="lightning, flash-attn ...")
    made.add_argument("--without", metavar="A,B", help="leave out torchvision or torchaudio")
    made.add_argument(
        "--torch-source",
        metavar="URL",
        help="index to take torch from, or `pip` for pip's own (also REEFWATCH_TORCH_SOURCE)",
    )
    made.add_argument("--data", metavar="FILE", help="TOML rows laid over the shipped tables")
    made.add_argument("--format", default="text", choices=_FORMATS)
    made.add_argument("--out", metavar="DIR", help="write install.sh, Dockerfile and so on there")
    made.add_argument("--apply", metavar="VENV", help="install it there, then look it over")
    return made


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from datetime import date

    from reefwatch.api import plan as api
    from reefwatch.plan.sets import Conflict

    given = parser().parse_args(argv)
    said = {name: getattr(given, name) for name in _WISHES}
    for name, value in {**said, "out": given.out, "apply": given.apply, "data": given.data}.items():
        if value is not None and not value.strip(" ,"):
            option = "with" if name == "libraries" else name.replace("_", "-")
            raise UsageError(f"--{option} is empty: say what is wished, or leave it out")
    words = {name: (value or "").strip() for name, value in said.items()}
    asked = api.wishes(
        words["gpu"],
        words["os"],
        words["python"],
        words["torch"],
        words["rocm"],
        words["channel"],
        _listed(words["libraries"]),
        _listed(words["without"]),
        words["torch_source"],
    )
    found = api.plan(asked, data=given.data)
    if isinstance(found, Conflict):
        print(api.render("json" if given.format == "json" else "text", found), end="")
        return 3
    if api.is_old(found, date.today()):
        say(f"the tables are of {found.asof}: newer releases are not known to them")
    if given.out is not None:
        for path in api.write(found, given.out):
            say(f"written: {path}")
    else:
        print(api.render(given.format, found), end="")
    if given.apply is None:
        return 0
    sys.stdout.flush()
    there = api.apply(found, given.apply, say)
    say("installed: " + ", ".join(f"{name} {version}" for name, version in there.items()))
    return api.look_over(found, given.apply, say)
