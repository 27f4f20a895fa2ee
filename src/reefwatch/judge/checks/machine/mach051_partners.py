"""MACH051: torchvision and torchaudio of the same release and build."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case, of_row

_ROW = {"torchvision": "0.28.0", "torchaudio": "", "grade": "measured", "source": "RELEASE.md"}


def _case(torch: str, row: Any = _ROW, twice: Any = None, **packages: str) -> Case:
    release, _, tag = torch.partition("+")
    facts = {"release": release, "tag": tag, "version": torch, "kind": "rocm"}
    packages = {"torch": torch, **packages}
    return case(torch=facts, packages=packages, has_torch=True, expected=row, twice=twice or {})


_NAMES = ("torchvision", "torchaudio")
_STANDARD = re.compile(r"(?:(?:rocm|cu|cpu|xpu)[\d.]*)?")


def _by_hand(version: str) -> bool:
    """Whether a version's tag is that of no index: `0.28.0a0+git123`, built by somebody."""
    return _STANDARD.fullmatch(version.partition("+")[2]) is None


def _doubt(case: Case) -> str:
    packages = case.value("machine.packages")
    for name in ("torch", *_NAMES):
        here = any(one in packages for one in _NAMES)
        if here and name in packages and _by_hand(packages[name]):
            return f"{name} {packages[name]} was built by hand: for which torch, it does not tell"
    return ""


@check(
    "MACH051",
    Severity.ERROR,
    when=("machine.has_torch",),
    needs=("machine.packages", "machine.torch"),
    good=(
        _case("2.13.0+rocm7.2", torchvision="0.28.0+rocm7.2"),
        _case("2.13.0+rocm7.2"),
        _case("2.13.0", torchvision="0.28.0"),
    ),
    bad=(
        _case("2.13.0+rocm7.2", torchvision="0.28.0"),
        _case("2.13.0+rocm7.2", torchvision="0.27.0+rocm7.2"),
        _case("2.13.0+rocm7.2", torchvision="0.28.0+rocm6.4"),
        _case("2.13.0+rocm7.2", torchaudio="2.11.0+cpu"),
        _case("2.13.0+rocm7.2", twice={"torch": ["2.10.0", "2.13.0+rocm7.2"]}),
    ),
    doubt=_doubt,
)
def partners(case: Case) -> Iterator[Finding]:
    """Torchvision and torchaudio belong to the torch that is installed: release and build.

    Why: their compiled parts are bound to one torch. From another release or index they miss
    symbols, or operators: "operator torchvision::nms does not exist", "invalid device function".
    Fix: install all of them in one command from one index.
    Source: the version tables of pytorch.org (torch.toml); AMD's install page for its own wheels.
    """
    packages: Mapping[str, str] = case.value("machine.packages")
    torch = case.value("machine.torch")
    row = case.known("machine.expected", {})
    for name, versions in case.known("machine.twice", {}).items():
        if name in ("torch", *_NAMES):
            yield Finding(
                f"{name} is installed as {' and as '.join(versions)} in one folder",
                (Evidence("versions", list(versions), source="dist-info"),),
                claimed="one version of a package",
                why="every use: an installation was cut off, and files of both may lie there",
                fix=f"pip uninstall -y {name}, until none is left; then install it again",
            )
    for name in _NAMES:
        have = packages.get(name)
        if have is None:
            continue
        release, _, tag = have.partition("+")
        fix = f"pip install --force-reinstall torch=={torch['version']} {name}"
        known = not _by_hand(have) and not _by_hand(torch["version"])
        if known and tag != torch["tag"] and not (name == "torchaudio" and not tag):
            yield Finding(
                f"{name} {have} is of another build than torch {torch['version']}",
                (Evidence(name, have, source="dist-info"),),
                claimed=f"{name} with the tag {torch['tag'] or '(none)'}",
                why="vision and audio work: operators are missing, or made for another GPU",
                fix=_from_index(fix, row),
            )
        wanted = str(row.get(name, ""))
        if wanted and wanted[:1].isdigit() and _minor(release) != _minor(wanted):
            yield Finding(
                f"{name} {release} with torch {torch['release']}",
                (of_row(name, have, row),),
                claimed=f"{name} {wanted}, by the table of releases",
                why="vision and audio work: compiled operators miss symbols of this torch",
                fix=_from_index(f"{fix}=={wanted}", row),
            )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _from_index(command: str, row: Mapping[str, Any]) -> str:
    return f"{command} --index-url {row['index']}" if row.get("index") else command
