"""Operating systems as people write them, against AMD's lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class System:
    """`name` as AMD writes it, empty for one that AMD never lists."""

    asked: str
    name: str
    version: str


def read(text: str) -> System | None:
    """`ubuntu-24.04`, `Ubuntu 24.04`, `rhel9.4`, `arch`; None for what is no Linux system."""
    low = re.sub(r"[\s_:]+", "-", text.strip().lower())
    found = re.fullmatch(r"([a-z][a-z-]*?)-?(\d[\d.]*)?", low)
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
    short = system.name.split()[0]
    for row in lists:
        for part in re.split(r";|:", row):
            if not re.search(rf"\b{re.escape(short)}\b", part):
                continue
            after = part[re.search(rf"\b{re.escape(short)}\b", part).end() :]  # type: ignore[union-attr]
            versions = re.findall(
                r"(?<![\w.-])\d+(?:\.\d+)*(?:\s+SP\d)?", re.sub(r"\([^)]*\)", "", _own(after))
            )
            for version in versions:
                if _fits(system.version, version.replace(" SP", ".")):
                    return f"{system.name} {version}"
    return None


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
