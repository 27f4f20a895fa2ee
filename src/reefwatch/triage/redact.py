"""What a log tells about people and machines beyond what a record does: taken out line by line."""

from __future__ import annotations

import re

from reefwatch.triage.clean import plain

_IPV4 = re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9a-fA-F]{1,4}:){3,7}(?::?[0-9a-fA-F]{1,4}){1,4}(?![\w:])|(?<![\w:])fe80::[0-9a-fA-F:]+"
)
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_JOURNAL = re.compile(
    r"^((?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+\d+ [\d:]{8} )(\S+)( \S+: )"
)
_PROMPT = re.compile(r"(?<![\w.+-])[a-z_][\w-]{0,31}@(?P<host>[A-Za-z][\w-]{0,62})(?=[:\s~])")
_NCCL = re.compile(r"^(\s*(?:\[[^\]]*\] )?)[\w.-]+(:\d+:\d+ \[\d+\] )")
_HOMES = re.compile(
    r"(?<![\w~>])((?:/(?:mnt|data|scratch|work|export|net|lustre|gpfs|nfs)(?:/[\w.-]+)?)?/(?:home|Users|users|user)/)(?!user\b|runner/)[^/\s\"':;,<>()]+"
)
_WINDOWS = re.compile(r"([A-Za-z]:\\+Users\\+)(?!user\\)[^\\\s\"'<>]+", re.IGNORECASE)
_SHARED = re.compile(
    r"(?<![\w~>])(/(?:scratch|lustre\w*|gpfs|nfs|projects?|pfs)/)[\w./-]*?(?=[\w.-]+(?:[\s\"':;,<>()]|$))"
)
_SERIAL = re.compile(
    r"((?:serial|uuid|unique_id|GPU UUID)\W{1,4})(?:GPU-)?[0-9a-fA-F][0-9a-fA-F-]{11,}",
    re.IGNORECASE,
)
_UUID = re.compile(r"\bGPU-[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,}){0,4}")
_HOSTS = re.compile(
    r"((?:host(?:name)?|node(?:name)?|MASTER_ADDR|addr(?:ess)?)[\"']?\s?[=:]\s?[\"']?)(?!localhost|127\.)([A-Za-z][\w-]*(?:\.[\w-]+)+|[A-Za-z]+[\w-]*\d[\w-]*)(?![\w.])",
    re.IGNORECASE,
)


class Redactor:
    """Redacts lines; names met once (a host in a journal, a user in a prompt) go everywhere."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._known: re.Pattern[str] | None = None

    def line(self, text: str) -> str:
        """The line without addresses, accounts and machine names; colours go too."""
        text = plain(text)
        journal = _JOURNAL.match(text)
        if journal:
            self._learn(journal[2], "<host>")
        for match in _PROMPT.finditer(text):
            self._learn(match[0].partition("@")[0], "<user>")
            self._learn(match["host"], "<host>")
        for home in _HOMES.finditer(text):
            self._learn(home[0].rpartition("/")[2], "<user>")
        text = _MAIL.sub("<mail>", text)
        text = _JOURNAL.sub(r"\1<host>\3", text)
        text = _PROMPT.sub("<user>@<host>", text)
        text = _NCCL.sub(r"\1<host>\2", text)
        text = _HOMES.sub(r"\1<user>", text)
        text = _WINDOWS.sub(r"\1<user>", text)
        text = _SHARED.sub(r"\1<path>/", text)
        text = _MAC.sub("<mac>", text)
        text = _IPV4.sub(_address, text)
        text = _IPV6.sub("<address>", text)
        text = _SERIAL.sub(r"\1<serial>", text)
        text = _UUID.sub("GPU-<serial>", text)
        text = _HOSTS.sub(r"\1<host>", text)
        if self._known is not None:
            text = self._known.sub(lambda match: self._names[match[0]], text)
        return text

    def _learn(self, name: str, mark: str) -> None:
        if (
            len(name) < 3
            or name in self._names
            or name.lower() in _COMMON
            or len(self._names) > 200
        ):
            return
        self._names[name] = mark
        words = sorted(self._names, key=len, reverse=True)
        self._known = re.compile(r"(?<![\w<])(?:" + "|".join(map(re.escape, words)) + r")(?![\w>])")


_COMMON = frozenset(
    """
    root user runner ubuntu admin localhost kernel python python3 home data models model work app
    workspace docker jupyter torch rocm train test tests build
    """.split()  # noqa: SIM905
)


def _address(match: re.Match[str]) -> str:
    """An address; four numbers that are a version (`rocm 6.2.4.1`) stay."""
    parts = [int(part) for part in match[0].split(".")]
    before = match.string[max(match.start() - 12, 0) : match.start()].lower()
    if (
        any(part > 255 for part in parts)
        or parts[0] == 0
        or "version" in before
        or before.endswith(("v", "==", "-"))
    ):
        return match[0]
    return "<address>"
