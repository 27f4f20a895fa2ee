"""Operating systems as people write them, against AMD's lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

_NAMES = {
    "ubuntu": "Ubuntu",
    "rhel": "RHEL",
    "redhat": "RHEL",
    "debian": "Debian",
    "sles": "SLES",
    "oracle": "Oracle Linux",
    "ol": "Oracle Linux",
    "rocky": "Rocky Linux",
    "azurelinux": "Azure Linux",
    "centos": "CentOS",
}
_OTHERS = ("fedora", "arch", "manjaro", "opensuse-leap", "opensuse-tumbleweed", "linuxmint", "pop",
           "almalinux", "nixos", "gentoo", "endeavouros", "cachyos", "linux")  # fmt: skip
KNOWN = (
    *("ubuntu-26.04", "ubuntu-24.04", "ubuntu-22.04", "ubuntu-20.04"),
    *("rhel-10", "rhel-9", "rhel-8", "debian-13", "debian-12", "sles-16", "sles-15"),
    *("oracle-10", "oracle-9", "oracle-8", "rocky-9", "azurelinux-3", "centos-7"),
)


_POINTS = {
    "Ubuntu": 6, "RHEL": 10, "Oracle Linux": 10, "Rocky Linux": 10, "CentOS": 9, "SLES": 7,
    "Debian": 20, "Azure Linux": 9,
}  # fmt: skip
"""The highest point release of one release that a maker has given, or gives by its calendar."""


@dataclass(frozen=True)
class System:
    """`name` as AMD writes it, empty for one that AMD never lists."""

    asked: str
    name: str
    version: str


def read(text: str) -> System | None:
    """`ubuntu-24.04`, `Ubuntu 24.04`, `rhel9.4`, `arch`; None for what is no Linux system."""
    low = re.sub(r"[\s_:]+", "-", text.strip().lower())
    found = re.fullmatch(r"([a-z][a-z-]*?)-?(\d+(?:\.\d+)*)?", low)
    if found is None:
        return None
    name, version = found[1].rstrip("-").replace("oracle-linux", "oracle"), found[2] or ""
    name = name.replace("azure-linux", "azurelinux").replace("rocky-linux", "rocky")
    if name in _NAMES:
        return System(low, _NAMES[name], version)
    return System(low, "", version) if name in _OTHERS else None


def listed(system: System, lists: Iterable[str]) -> str | None:
    """AMD's words for this system in a release's list; None when it is not there.

    A system without a point release (`rhel-9`) is there when any of its point releases is.
    """
    if not system.name:
        return None
    for version in _versions(system.name, lists):
        if _fits(system.version, version.replace(" SP", ".")):
            return f"{system.name} {version}"
    return None


def _versions(name: str, lists: Iterable[str]) -> Iterator[str]:
    """The versions of a system in a list, as AMD writes them."""
    short = re.compile(rf"\b{re.escape(name.split()[0])}\b")
    for row in lists:
        for part in re.split(r";|:", row):
            found = short.search(part)
            if found is not None:
                own = re.sub(r"\([^)]*\)", "", _own(part[found.end() :]))
                yield from re.findall(r"(?<![\w.-])\d+(?:\.\d+)*(?:\s+SP\d)?", own)


def wrong(text: str, releases: Sequence[Mapping[str, Any]]) -> str:
    """Why a system cannot be planned for: no Linux, a slip of the pen, or none that there can be.

    What AMD merely does not list can be; a version older than all that it lists cannot.
    """
    system = read(text)
    if system is None:
        if re.match(r"\s*(?:win|mac|darwin|osx|freebsd|android|ios)", text, re.IGNORECASE):
            return f"{text!r} is no Linux system: only Linux is supported"
        close = near(text, releases)
        hint = f"; near: {close}" if close else f"; known: {', '.join(KNOWN[:6])} ..."
        return f"{text!r} is no system that the tables know{hint}"
    have = _known(system.name, releases)
    if not have or not system.version:
        return ""
    asked, least, most = _number(system.version), have[0], have[-1]
    words = f"{system.name} {system.version}"
    if asked < least[: len(asked)]:
        return (
            f"{words} is older than all that AMD lists for ROCm: from {system.name} {_text(least)}"
        )
    if _cannot_be(system) or asked[0] > most[0] + 1:
        close = near(text, releases)
        hint = f"near: {close}" if close else ""
        span = f"the tables know {system.name} {_text(least)} to {_text(most)}"
        return f"there is no {words}; {'; '.join(filter(None, (hint, span)))}"
    return ""


def _cannot_be(system: System) -> bool:
    """Whether a version is none that its maker could give: `24.4`, `24.04.99`, `9.77`."""
    parts = system.version.split(".")
    if system.name == "Ubuntu":
        dated = len(parts) < 2 or parts[1] in ("04", "10")
        long = len(parts) > 1 and int(parts[0]) % 2 == 0 and parts[1] == "04"
        points = len(parts) < 3 or (long and int(parts[2]) <= _POINTS["Ubuntu"])
        return not (dated and points) or len(parts) > 3
    zeros = any(len(part) > 1 and part.startswith("0") for part in parts)
    high = len(parts) > 1 and int(parts[1]) > _POINTS.get(system.name, 99)
    return zeros or high or len(parts) > 2


def near(text: str, releases: Sequence[Mapping[str, Any]]) -> str:
    """The nearest system that can be: of the same name, else of a name that is spelt alike."""
    system = read(text)
    if system is None:
        low = re.sub(r"[\s_:]+", "-", text.strip().lower())
        close = get_close_matches(low, (*KNOWN, *_OTHERS), n=1, cutoff=0.7)
        return close[0] if close else ""
    asked = _number(system.version)
    have = _known(system.name, releases)
    if not have or not asked:
        return ""
    best = have[0] if asked < have[0] else have[-1]
    same = [one for one in have if one[0] == asked[0]]
    best = same[-1] if same else best
    own = [name for name in KNOWN if (one := read(name)) is not None and one.name == system.name]
    fits = [name for name in own if _number(name.rpartition("-")[2]) == best[: name.count(".") + 1]]
    return fits[0] if fits else ""


def _known(name: str, releases: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, ...], ...]:
    """All versions of a system that any release lists, oldest first."""
    return _of(name, tuple(row for release in releases for row in release["os"])) if name else ()


@lru_cache(maxsize=64)
def _of(name: str, lists: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted({_number(version) for version in _versions(name, lists)}))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part[:6]) for part in re.findall(r"\d+", version))


def _text(version: tuple[int, ...]) -> str:
    return ".".join(f"{part:02d}" if n == 1 and version[0] > 18 else str(part)
                    for n, part in enumerate(version))  # fmt: skip


def _own(text: str) -> str:
    """What stands before the next system's name: `10/9/8, Rocky 9` -> `10/9/8, `."""
    other = re.search(r"\b(?:Ubuntu|RHEL|Debian|SLES|Oracle|Rocky|Azure|CentOS)\b", text)
    return (text[: other.start()] if other else text).replace("/", " ")


def _fits(asked: str, listed: str) -> bool:
    if not asked:
        return True
    mine, theirs = asked.split("."), listed.split(".")
    return theirs[: len(mine)] == mine or (
        len(mine) > len(theirs) and mine[: len(theirs)] == theirs
    )
