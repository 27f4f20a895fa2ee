"""What a log tells about people and machines beyond what a record does: taken out line by line.

A name gets one placeholder (`<user-1>`, `<host-2>`), wherever it stands, in all logs of a call.
Names are learnt first, from the places that give them away (a prompt, a home folder, a journal,
`user=`), so that a name is gone also from the lines before those. A copy that is redacted again
stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

from reefwatch.triage import giveaways as where
from reefwatch.triage.clean import plain

SECRET = "<secret>"
_MARK = r"<(?:user|host)(?:-\d+)?>|<(?:secret|mail|mac|address|serial|path)>"


def _may(low: str, hints: tuple[str, ...]) -> bool:
    return any(hint in low for hint in hints)


_WORDS = re.compile(r"[A-Za-z_](?:[\w.-]*\w)?")
_MOST = 5000
"""Names that are learnt; a log with more of them has other worries."""


class Redactor:
    """Redacts the lines of some logs that belong together."""

    def __init__(self, users: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        """`users` and `hosts` are known from elsewhere: whose machine it is that redacts."""
        self._names: dict[str, str] = {}
        self._counts = {"user": 0, "host": 0}
        self._taken: set[str] = set()
        self._phrases: re.Pattern[str] | None = None
        self._said: dict[str, str] = {}
        self._armoured = 0
        self._looked = False
        """Whether the names were learnt beforehand."""
        for name in users:
            self._learn(name, "user")
        for name in hosts:
            self._learn(name, "host")

    @property
    def inside(self) -> bool:
        """True within a key that spans lines: a line then hangs on those before."""
        return self._armoured > 0

    def look(self, text: str) -> None:
        """Learn the names that a line gives away; called for every line before any is redacted."""
        self._looked = True
        self._learn_from(plain(text))

    def _learn_from(self, text: str) -> None:
        low = text.lower()
        if "<" in text:
            for mark in re.findall(r"<((?:user|host)-\d+)>", text):
                self._taken.add(mark)  # a placeholder of an earlier time
        if "://" in text:
            for one in where.URL.finditer(text):
                if one[2] and one[3]:
                    self._learn(one[2], "user")
                if one[4] and not where.PUBLIC.fullmatch(one[4]):
                    self._learn(one[4], "host")
        if ":" in text and _may(low, where.LOGINS):
            for one in where.LOGIN.finditer(text):
                self._learn(one["user"], "user")
        if "@" in text:
            for one in where.PROMPT.finditer(text):
                self._learn(one[1], "user")
                if one[2][:1].isalpha() and not _is_mail(one[0]):
                    self._learn(one[2], "host")
        for patterns, kind in ((where.USERS, "user"), (where.HOSTS, "host")):
            for pattern, hints in patterns:
                if _may(low, hints):
                    for one in pattern.finditer(text):
                        self._learn(one[2].strip(), kind)

    def line(self, text: str) -> str:
        """The line without secrets, addresses, accounts and machine names; colours go too."""
        text = plain(text)
        if not self._looked:
            self._learn_from(text)
        low = text.lower()
        text = self._secrets(text, low)
        if "@" in text:
            text = where.MAIL.sub("<mail>", text)
            text = where.PROMPT.sub(self._prompt, text)
        for pattern, hints in where.USERS:
            if _may(low, hints):
                text = pattern.sub(lambda one: one[1] + self._mark(one[2], "user"), text)
        for pattern, hints in where.HOSTS:
            if _may(low, hints):
                text = pattern.sub(lambda one: one[1] + self._mark(one[2], "host"), text)
        if _may(low, where.PATHS):
            text = where.SHARED.sub(r"\1<path>/", text)
        if text.count(":") >= 2:
            text = where.MAC.sub("<mac>", text)
            text = where.IPV6.sub(_address6, text)
        elif text.count("-") >= 5:
            text = where.MAC.sub("<mac>", text)
        if text.count(".") >= 3:
            text = where.IPV4.sub(_address, text)
        if _may(low, ("serial", "uuid", "unique")):
            text = where.SERIAL.sub(r"\1<serial>", text)
        if "GPU-" in text:
            text = where.UUID.sub("GPU-<serial>", text)
        return self._everywhere(text)

    def _secrets(self, text: str, low: str) -> str:
        if self._armoured or "-----" in text:
            text = self._armour(text)
        if "://" in text:
            text = where.URL.sub(self._url, text)
        if ('"' in text or "'" in text) and _may(low, where.KEYED):
            text = where.QUOTED.sub(_quoted, text)
        if ":" in text and _may(low, where.LOGINS):
            text = where.LOGIN.sub(
                lambda one: f"{one['head']}{self._mark(one['user'], 'user')}:{SECRET}", text
            )
        if " -p" in text or "--password" in text:
            text = where.SHORT.sub(rf"\1{SECRET}", text)
        return where.COOKIE.sub(rf"\1{SECRET}", text) if "cookie" in low else text

    def _armour(self, text: str) -> str:
        """The inside of a key or certificate, which spans lines."""
        mark = where.PEM.search(text)
        if mark is not None:
            begins = mark[1] == "BEGIN"
            more = where.PEM.search(text, mark.end())
            if begins and more is not None:  # all in one line, with \n written out
                self._armoured = 0
                return f"{text[: mark.end()]}{SECRET}{text[more.start() :]}"
            self._armoured = 200 if begins else 0
            rest = text[mark.end() :]
            if begins and rest.strip():
                return text[: mark.end()] + SECRET
            return text
        inside = where.ARMOUR.match(text) if self._armoured else None
        if inside is None or SECRET in text:
            if text.strip() and SECRET not in text:
                self._armoured = 0
            return text
        self._armoured -= 1
        return (inside[1] or inside[3] or "") + SECRET

    def _url(self, one: re.Match[str]) -> str:
        user = one[2] or ""
        shown = (
            self._mark(user, "user")
            if user and user not in ("git", "oauth2", "x-access-token")
            else user
        )
        if one[3] is None and user and shown == user and len(user) > 15:
            shown = SECRET  # a token alone
        host = one[4] or ""
        host = host if not host or where.PUBLIC.fullmatch(host) else self._mark(host, "host")
        return one[1] + shown + (f":{SECRET}" if one[3] else "") + "@" + host

    def _prompt(self, one: re.Match[str]) -> str:
        if _is_mail(one[0]):
            return one[0]
        host = one[2] if not one[2][:1].isalpha() else self._mark(one[2], "host")
        return f"{self._mark(one[1], 'user')}@{host}"

    def _mark(self, name: str, kind: str) -> str:
        """The placeholder of a name; the name itself when it names nobody (`root`)."""
        if name.startswith("<") or name.lower() in _NOBODY:
            return name
        self._learn(name.strip(), kind)
        return self._names.get(name.strip()) or (
            name if len(name) < 3 and kind == "host" else f"<{kind}>"
        )

    def _everywhere(self, text: str) -> str:
        """Names that are known, wherever they stand."""
        if not self._names:
            return text
        if self._phrases is not None:
            text = self._phrases.sub(lambda one: self._names[one[0]], text)
        if "<" in text:
            parts = re.split(f"({_MARK})", text)
            parts[::2] = [_WORDS.sub(self._word, part) for part in parts[::2]]
            return "".join(parts)
        return _WORDS.sub(self._word, text)

    def _word(self, one: re.Match[str]) -> str:
        word = one[0]
        known = self._said.get(word)
        if known is None:
            known = self._within(word)
            if len(self._said) > 50_000:
                self._said.clear()
            if len(word) < 200:
                self._said[word] = known
        return known

    def _within(self, word: str) -> str:
        """A word with every run of its parts that is a name replaced, longest first."""
        if word in self._names:
            return self._names[word] if len(word) > 3 else word
        parts = re.split(r"([.-])", word)
        if len(parts) == 1:
            return word
        out, at = [], 0
        while at < len(parts):
            ends = range(min(len(parts), at + 16), at, -1)
            end = (
                next((e for e in ends if "".join(parts[at:e]) in self._names and e % 2), 0)
                if at % 2 == 0
                else 0
            )
            name = "".join(parts[at:end]) if end else ""
            if end and len(name) > 3:
                out.append(self._names[name])
                at = end
            else:
                out.append(parts[at])
                at += 1
        return "".join(out)

    def _learn(self, name: str, kind: str) -> None:
        name = name.rstrip(".")
        if len(name) < 2 or name in self._names or name.lower() in _COMMON or "<" in name:
            return
        if name.isdigit() or len(self._names) > _MOST:
            return
        if kind == "user" and name.startswith("."):
            return
        if kind == "host" and "." in name and name.partition(".")[0] in self._names:
            mark = self._names[name.partition(".")[0]]  # the same machine by its full name
        else:
            mark = self._fresh(kind)
        self._names[name] = mark
        self._said.clear()
        first, dot, _ = name.partition(".")
        if (
            kind == "host"
            and dot
            and len(first) > 3
            and not first.isdigit()
            and first.lower() not in _COMMON
        ):
            self._names.setdefault(first, mark)
        if " " in name:
            spaced = sorted((n for n in self._names if " " in n), key=len, reverse=True)[:200]
            self._phrases = re.compile(
                r"(?<![\w<])(?:" + "|".join(map(re.escape, spaced)) + r")(?![\w>])"
            )

    def _fresh(self, kind: str) -> str:
        while True:
            self._counts[kind] += 1
            mark = f"{kind}-{self._counts[kind]}"
            if mark not in self._taken:
                return f"<{mark}>"


_NOBODY = frozenset("root user runner ubuntu admin localhost nobody jovyan".split())  # noqa: SIM905
_COMMON = _NOBODY | frozenset(
    """
    kernel python python3 home data models model work app apps workspace docker jupyter torch rocm
    train test tests build src lib bin opt usr var tmp run local share cache conda miniconda3 hip
    anaconda3 venv env code main default public shared none true false null host node server master
    worker gpu cpu cuda amd nvidia nccl rccl triton vllm transformers lightning user1 noreply bugs
    support info security name path file line error warning debug the and for this that with git
    oauth2 container system linux windows unknown
    """.split()  # noqa: SIM905
)


_MODEL = re.compile(
    r"(?:pad|eos|bos|unk|sep|cls|mask|stop|start|end|image|special|max|new)[_-]?token", re.I
)
"""Tokens of a language model."""


def _quoted(one: re.Match[str]) -> str:
    if _MODEL.search(one[1]):
        return one[0]
    return f"{one[1]}{one[2]}{SECRET}{one[4]}"


_VERSION = re.compile(
    r"(?:version|ver|rocm|hip|cuda|torch|driver|kernel|release|firmware|build|runtime|smi|lib\w*)"
    r"[^\w/:@]*$"
)


def _is_mail(text: str) -> bool:
    return where.MAIL.fullmatch(text) is not None


def _address(match: re.Match[str]) -> str:
    """An address; four numbers that are a version (`rocm 6.2.4.1`) stay."""
    parts = [int(part) for part in match[0].split(".")]
    before = match.string[max(match.start() - 12, 0) : match.start()].lower()
    if (
        any(part > 255 for part in parts)
        or parts[0] == 0
        or before.endswith(("v", "==", "-", "=>"))
        or _VERSION.search(before)
    ):
        return match[0]
    return "<address>"


def _address6(match: re.Match[str]) -> str:
    """An address of version 6; `::` of C++ and hours of the day are none."""
    text = match[0]
    bare = text.strip("[]").partition("%")[0]
    groups = bare.split(":")
    try:
        address = ip_address(bare)
    except ValueError:
        return text
    if address.is_loopback or address.is_unspecified:
        return text
    if "::" in bare and not (len(groups[0]) > 2 or len(groups) > 4):
        return text
    return text.replace(text.strip("[]"), "<address>")
