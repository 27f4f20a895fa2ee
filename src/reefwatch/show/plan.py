"""A plan as text, shell commands, requirements, pyproject or Dockerfile."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

FORMATS = ("text", "shell", "requirements", "libraries", "pyproject", "dockerfile")
FILES = {
    "shell": "install.sh",
    "requirements": "requirements-torch.txt",
    "libraries": "requirements.txt",
    "pyproject": "pyproject.toml",
    "dockerfile": "Dockerfile",
}
"""What each format is called in a folder."""
_OWN_PYTHON = {"22.04": "3.10", "24.04": "3.12", "26.04": "3.14"}
"""The Python of each Ubuntu."""
_DEBIAN = {"12": "bookworm", "13": "trixie"}
_DEVICES = (
    "docker run --device=/dev/kfd --device=/dev/dri --group-add video --group-add render "
    "--ipc=host --shm-size 16G --security-opt seccomp=unconfined"
)

Plan = Mapping[str, Any]


def render(kind: str, plan: Plan) -> str:
    """A plan (`Plan.plain()`) in one of FORMATS. Raises ValueError for another."""
    if kind == "text":
        return text(plan)
    if kind not in FILES:
        raise ValueError(f"a plan cannot be written as {kind!r}")
    return _tidy(_templates().get_template(f"{kind}.j2").render(_words(plan)))


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("reefwatch.show", "templates/plan"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(q=shlex.quote, t=json.dumps, d=json.dumps)
    return made


def _tidy(made: str) -> str:
    """No more than one empty line in a row, one line end at the end."""
    lines: list[str] = []
    for line in made.rstrip().splitlines():
        if line.strip() or (lines and lines[-1].strip()):
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def _words(plan: Plan) -> dict[str, Any]:
    wishes, pins = plan["wishes"], plan["pins"]
    rows = {row["what"]: row for row in plan["rows"]}
    python = wishes["python"]
    image, apt, instead = _image(wishes["os"], python)
    return {
        "head": [_line(words) for words in _head(plan)],
        "instead": instead,
        "system": [_line(words) for words in _system(wishes["vendor"], rows)],
        "python": f"python{python}" if python else "python3",
        "requires": f"=={python}.*" if python else ">=3.10",
        "index": plan["index"],
        "torch": [pin for pin in pins if pin["own_index"]],
        "libraries": [pin for pin in pins if not pin["own_index"] and not pin["build"]],
        "built": [pin for pin in pins if pin["build"]],
        "family": plan["family"],
        "environment": sorted(plan["environment"].items()),
        "unset": plan["unset"],
        "image": image,
        "apt": apt,
    }


def _line(words: str) -> str:
    return " ".join(words.split())


def _head(plan: Plan) -> list[str]:
    card = plan["rows"][0]
    told = [f"reefwatch plan for {card['value']} ({card['why'] or plan['wishes']['vendor']})"]
    told.append(f"tables as of {plan['asof']}; weakest part: {plan['confidence']}")
    weak = [row for row in plan["rows"] if row["what"] in plan["weak"]]
    return told + [f"{r['confidence']}: {r['what']} {r['value']} ({r['why']})" for r in weak]


def _system(vendor: str, rows: Mapping[str, Any]) -> list[str]:
    driver = rows.get("driver")
    told = [] if driver is None else [f"driver: {driver['value']}; {driver['why']}"]
    if vendor == "amd":
        told.append('access to the card: sudo usermod -aG render,video "$USER", then log in again')
        told.append(f"in a container: {_DEVICES}")
    return told


def _image(system: str, python: str) -> tuple[str, bool, str]:
    """(base image, whether its Python comes from apt, what is said when it is another system)."""
    name, _, version = system.partition("-")
    if name == "ubuntu" and _OWN_PYTHON.get(version) and python in ("", _OWN_PYTHON[version]):
        return f"ubuntu:{version}", True, ""
    suite = _DEBIAN.get(version.partition(".")[0], "") if name == "debian" else ""
    image = f"python:{python or '3.12'}-slim-{suite or _DEBIAN['12']}"
    if suite or not system:
        return image, False, ""
    own = _OWN_PYTHON.get(version) if name == "ubuntu" else ""
    why = f"which has Python {own}" if own else "of which no image with this Python is known here"
    return (
        image,
        False,
        (f"the image is Debian 12 in place of {system}, {why}; the wheels carry all that computes"),
    )


def text(plan: Plan) -> str:
    """The rows with their reasons, sources and confidence."""
    lines = [f"{words}" for words in _head(plan)[:2]]
    lines.append("")
    sources = list(dict.fromkeys(row["source"] for row in plan["rows"] if row["source"]))
    for row in plan["rows"]:
        mark = f", source {sources.index(row['source']) + 1}" if row["source"] else ""
        lines.append(f"{row['what']:<14} {row['value']}  ({row['confidence']}{mark})")
        if row["why"]:
            lines.append(f"{'':<15}{_line(row['why'])}")
    lines.append("")
    lines.append("install")
    lines.append(f"  from {plan['index'] or 'the index that pip is set up with'}")
    lines += [f"    {pin['requirement']}" for pin in plan["pins"] if pin["own_index"]]
    others = [pin for pin in plan["pins"] if not pin["own_index"]]
    if others:
        lines.append("  from PyPI, held to the torch above")
        lines += [f"    {pin['requirement']}" for pin in others]
    for name, value in sorted(plan["environment"].items()):
        lines.append(f"  set    {name}={value}")
    lines += [f"  unset  {name}" for name in plan["unset"]]
    if plan["remarks"]:
        lines.append("")
        lines += [f"remark  {_line(words)}" for words in plan["remarks"]]
    if plan["weak"]:
        lines.append("")
        lines.append(
            f"not sourced: {', '.join(plan['weak'])}; try these parts before relying on them"
        )
    return "\n".join(lines) + "\n"


def refusal(conflict: Mapping[str, Any]) -> str:
    """The conflict, and the nearest set."""
    lines = [f"no such set ({conflict['name']}): {_line(conflict['words'])}"]
    near = conflict["nearest"]
    if near is None:
        lines.append("no set near to it is known")
    else:
        lines += ["", f"nearest, {conflict['changed']}:", "", text(near).rstrip()]
    return "\n".join(lines) + "\n"
