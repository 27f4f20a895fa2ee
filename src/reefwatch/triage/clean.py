"""One line as it was meant: without colours, without what launchers and loggers put before it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_COLON = re.compile("\uff1a ?")
_QUOTES = str.maketrans("\u201c\u201d\u201e\u2018\u2019", '"""\'\'')

_CLOCK = r"(?P<h>\d{2}):(?P<m>\d{2}):(?P<s>\d{2}(?:[.,]\d+)?)"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LEVEL = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL"
_MONTH = "|".join(name.title() for name in _MONTHS)

_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        # which process speaks
        r"\s*\[(?:rank|default|Rank )(?P<rank>\d+)\]:\s?",  # torch, torchrun --tee
        r"\s*\[\d+,(?P<rank>\d+)\]<(?:stderr|stdout|stddiag)>:\s?",  # mpirun --tag-output
        r"\s*\((?P<stream>[\w.:<>\[\]/-]*\s?(?:pid|ip|rank)=[^)]*)\)\s?",  # ray, vLLM
        r"\s{0,4}(?P<rank>\d{1,5}): ",  # srun --label
        r"\[(?P<rank>\d{1,4})\]: ?",
        r"(?P<stream>\[?[\w.-]+\]?)\s+\| ",  # docker compose
        r"(?P<stream>[\w.-]+) \[std(?:err|out)\] ",
        r">{1,3} (?=\s*\S)",  # quoted, or typed at a prompt
        # when
        r"\[\s*(?P<boot>\d+\.\d{3,9})\]\s(?:\[\s*[TC]\d+\]\s)?",  # dmesg
        rf"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<mon>{_MONTH})\s+(?P<d>\d+) {_CLOCK}"
        r"(?: \d{4})?\]\s?",
        rf"(?P<mon>{_MONTH})\s+(?P<d>\d+) {_CLOCK} \S+ "  # journal
        r"(?:kernel|[\w./@-]+(?:\[\d+\])?): ?",
        rf"\[?(?P<y>\d{{4}})[-/](?P<mo>\d{{2}})[-/](?P<d>\d{{2}})[T ]{_CLOCK}"
        r"(?:Z|[+-]\d{2}:?\d{2})?\]?,?(?: - | \| |:)?\s?",
        rf"\[?(?P<level>[VIWEF])(?P<mo>\d{{2}})(?P<d>\d{{2}}) {_CLOCK}"
        r"\s+(?:\d+ )?[^\]]{1,120}?\] ?",
        r"\[(?P<level>[VIWEF]) [\w.-]+\.(?:cpp|cc|cu|hip|py):\d+\] ?",  # torch before 2.2
        rf"\(?(?P<level>{_LEVEL})\s+(?P<mo>\d{{2}})-(?P<d>\d{{2}}) {_CLOCK}"
        r"\s*(?:\[[^\]]{1,80}\])?:? ?",  # vLLM
        rf"\[?{_CLOCK}\]?(?: - | \| )?\s",
        # how loud, and through which logger
        rf"(?:[\w.]+ - )?(?P<level>{_LEVEL})(?: - |\s+\| )(?:[\w.:<>]+ ?- )?",
        rf"\[(?P<level>{_LEVEL})\](?:\s\[[^\]]{{1,60}}\])?:?\s",
        r"#\d{1,3} \d+\.\d+ ",  # docker build
    )
)


_ANY = re.compile(
    "|".join(
        f"(?P<p{n}>{re.sub('[?]P<[a-z]+>', '?:', one.pattern)})" for n, one in enumerate(_PREFIXES)
    )
)
"""All prefixes at once: which of them stands first."""


@dataclass(frozen=True)
class Clean:
    """What a line says, and who said it when."""

    text: str
    """Without colours and control characters; prefixes are still there."""
    body: str
    """Without prefixes too; its own indentation is kept."""
    stream: str = ""
    """The process that speaks, as far as a prefix tells; "" for the one that has none."""
    level: str = ""
    wall: float | None = None
    """Seconds since the start of the year, where the line has a date."""


def plain(line: str) -> str:
    """The line without colours and control characters."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    return _CONTROL.sub("", line).rstrip()


def clean(line: str) -> Clean:
    """Take a line apart. A prefix may stand before another one, in any order."""
    text = plain(line)
    if "\uff1a" in text:  # a colon of CJK
        text = _COLON.sub(": ", text)
    if "\u201c" in text:  # a word processor or a forum made them
        text = text.translate(_QUOTES)
    body, stream, level, wall = text, "", "", None
    for _ in range(8):
        first = _ANY.match(body)
        if first is None or first.end() == 0:
            break
        match = _PREFIXES[int((first.lastgroup or "p0")[1:])].match(body)
        assert match is not None
        told = match.groupdict()
        stream = told.get("rank") or told.get("stream") or stream
        level = told.get("level") or level
        wall = _wall(told) if told.get("h") and told.get("d") else wall
        body = body[match.end() :]
    return Clean(text, body, stream, level[:1].upper() if level else "", wall)


def _wall(told: dict[str, str | None]) -> float | None:
    """Seconds since New Year; months count 31 days, since only the order matters."""
    month = int(told.get("mo") or 0)
    if told.get("mon"):
        month = _MONTHS.index(str(told["mon"]).lower()[:3]) + 1
    days = month * 31 + int(told["d"] or 0)
    seconds = float(str(told["s"]).replace(",", "."))
    return ((days * 24 + int(told["h"] or 0)) * 60 + int(told["m"] or 0)) * 60 + seconds
