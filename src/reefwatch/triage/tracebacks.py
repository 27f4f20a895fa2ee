"""Python tracebacks in a stream of lines: chained, grouped, interleaved with those of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

_HEAD = re.compile(
    r"(?P<margin>[\s|+]*)(?P<said>\S.*?)??"
    r"(?:Exception Group )?Traceback \(most recent call last\):?\s*$"
)
_FRAME = re.compile(r'\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<name>.*))?')
_RAISED = re.compile(
    r"(?P<kind>[A-Za-z_][\w.]*(?:\.<locals>\.\w+)?(?:\([A-Za-z_]\w*\))?)(?:\s?\[[^\]]*\])?(?P<sign>:(?:\s(?P<said>.*)|$))?$"
)
_LOOSE = re.compile(
    r"(?:(?:FAILED|ERROR)\s\S+ - |E\s{2,}|\S.{0,60}[:|]\s|[\"'`*]{1,3}(?!.*[\"']\)?,?$))?"
    r"(?P<kind>(?:[a-z_][\w]*\.)*(?!(?:hip|cuda|nccl|hsa)[A-Z])(?:[A-Za-z]\w+"
    r"(?:Error|Exception|Failed|Interrupt|Resources|Timeout|Fault)|Exception\b))"
    r":\s(?P<said>\S.*)$"
)
CAUSED = "The above exception was the direct cause of the following exception"
DURING = "During handling of the above exception, another exception occurred"
_LONGEST = 2000
"""Lines of one traceback; a recursion error prints fewer."""


@dataclass(frozen=True)
class Raised:
    """An exception as printed."""

    kind: str
    said: str
    stream: str
    line: int
    """Of the line that names it."""
    chain: int
    """The same for exceptions that are chained."""
    order: int
    """Place in the chain, from 0."""
    caused: bool
    """It was raised from the one before it, by `raise ... from`."""
    frames: tuple[tuple[str, int, str], ...] = ()
    """The first and the last few (file, line, function)."""
    loose: bool = False
    """No traceback stood before it."""
    ignored: bool = False
    """Python itself went on after it (`Exception ignored in ...`)."""

    @property
    def name(self) -> str:
        """The class without its module, `RayTaskError(X)` as X."""
        inner = self.kind.partition("(")[2].rstrip(")")
        return (inner or self.kind).rpartition(".")[2]


@dataclass
class _Open:
    margin: int
    headed: bool = True
    """Its `Traceback` line was seen; else it began with a frame."""
    lines: int = 0
    foreign: int = 0
    talkative: int = 0
    """Foreign lines that a library or a logger wrote."""
    more: int = 0
    """Tracebacks of others that began within this one, without a prefix that tells them apart."""
    indent: int = -1
    """Of the frame whose source text comes next; -1 when another line stood between."""
    last: int = 0
    """The number of its last frame's line."""
    frames: list[tuple[str, int, str]] = field(default_factory=list)


@dataclass
class _Talk:
    """What one stream has said so far."""

    open: _Open | None = None
    chain: int = 0
    order: int = 0
    link: str = ""
    ended: int = -1
    ignored: bool = False


def opens(body: str) -> bool:
    """True for a line that matters though no traceback is open."""
    if "Traceback (most" in body or CAUSED in body or DURING in body or "Exception ignored" in body:
        return True
    if _begins(body) is not None:
        return True
    return ": " in body and _LOOSE.match(body.strip(" \t|+")) is not None


class Tracebacks:
    """Told every line of interest with its stream; answers with exceptions as they end."""

    def __init__(self) -> None:
        self._talks: dict[str, _Talk] = {}
        self._chains = 0

    @property
    def hungry(self) -> bool:
        """True while a traceback is open: the next line matters whatever it says."""
        return any(talk.open is not None for talk in self._talks.values())

    def cut(self) -> Iterator[Raised]:
        """What the log ends in: tracebacks of which the exception is not there."""
        for stream, talk in self._talks.items():
            if talk.open is None or not (talk.open.frames or talk.open.headed):
                continue
            if talk.open.headed or not talk.open.foreign:
                made = Raised("", "", stream, talk.open.last, talk.chain, talk.order, False)
                yield replace(made, frames=tuple(talk.open.frames), ignored=talk.ignored)

    def quotes(self, body: str, stream: str) -> bool:
        """True for a line of source that an open traceback shows; asked before `told`."""
        talk = self._talks.get(stream)
        if talk is None or talk.open is None or _FRAME.match(body.lstrip(" |+")):
            return False
        return 0 <= talk.open.indent < _indent(body)

    def told(self, body: str, stream: str, number: int) -> Raised | None:
        """One line; the exception that it names, if it does."""
        if len(self._talks) > 512:  # more streams than a log has ranks: forget those at rest
            self._talks = {key: talk for key, talk in self._talks.items() if talk.open}
        talk = self._talks.setdefault(stream, _Talk())
        head = _HEAD.match(body) if "Traceback (most" in body else None
        if head is not None:
            self._begin(talk, head, number)
            return None
        if talk.open is not None:
            return self._within(talk, body, stream, number)
        if _begins(body) is not None:  # the log begins within a traceback, or code does not compile
            self._begin(talk, None, number)
            return self._within(talk, body, stream, number)
        if CAUSED in body or DURING in body:
            talk.link = CAUSED if CAUSED in body else DURING
            return None
        if "Exception ignored" in body:
            talk.ignored = True
            return None
        loose = _LOOSE.match(body.strip(" \t|+")) if ": " in body else None
        if loose is None or loose["kind"].endswith("Warning"):
            return None
        self._chains += 1
        return Raised(
            loose["kind"], loose["said"], stream, number, self._chains, 0, False, loose=True
        )

    def _begin(self, talk: _Talk, head: re.Match[str] | None, number: int) -> None:
        more = talk.open.more + 1 if talk.open is not None and talk.open.headed else 0
        if talk.link and talk.chain:
            talk.order += 1
        else:
            self._chains += 1
            talk.chain, talk.order = self._chains, 0
        if head is None:
            talk.open = _Open(-1, headed=False)
        else:
            margin = len(head["margin"]) if not head["said"] else 0
            talk.open = _Open(margin, more=min(more, 64), last=number)

    def _within(self, talk: _Talk, body: str, stream: str, number: int) -> Raised | None:
        assert talk.open is not None
        trace = talk.open
        trace.lines += 1
        frame = _FRAME.match(body.lstrip(" |+"))
        if frame is not None:
            trace.frames.append((frame["file"], int(frame["line"]), (frame["name"] or "").strip()))
            trace.last, trace.indent = number, _indent(body)
            if not trace.headed:
                trace.margin = max(trace.indent - 2, 0)
            if len(trace.frames) > 40:
                del trace.frames[20]
            return None
        bare = body.lstrip(" |+") if trace.margin else body
        indent = _indent(body)
        if not body.strip() or (indent > trace.margin and body[:1] in " \t|"):
            if trace.lines > _LONGEST:
                talk.open = None
            return None
        raised = _RAISED.match(bare.strip())
        sure = trace.headed or (raised is not None and _CLASS.search(raised["kind"]))
        if raised is None or not sure or not _names_exception(raised, bare.strip()):
            self._foreign(talk, trace, body)
            return None
        talk.open = replace(trace, more=trace.more - 1, frames=[]) if trace.more else None
        caused, talk.link = talk.link == CAUSED, ""
        ignored, talk.ignored = talk.ignored, False
        talk.ended = number
        return Raised(
            raised["kind"],
            raised["said"] or "",
            stream,
            number,
            talk.chain,
            talk.order,
            caused,
            tuple(trace.frames),
            ignored=ignored,
        )

    def _foreign(self, talk: _Talk, trace: _Open, body: str) -> None:
        """Another process may speak between our lines; too much of it ends a traceback."""
        trace.indent = -1
        if _LIBRARY.search(body) is not None:
            trace.talkative += 1
        else:
            trace.foreign += 1
        if trace.foreign > 3 or trace.talkative > _TALK:
            talk.open, talk.link = None, ""


_CLASS = re.compile(r"\.|(?:Error|Exception|Exit|Interrupt|Warning|Resources|Timeout|Failed)\)?$")
_TALK = 200
"""Lines of libraries and loggers within one traceback."""
_LIBRARY = re.compile(
    r"NCCL (?:WARN|INFO|ERROR)|\b(?:MIOpen|rocBLAS|hipBLASLt|RCCL)\b"
    r"|\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR)\b"
    r"|^\[?[VIWEF]\d{4} |Memory access fault|\d{2}:\d{2}:\d{2}|\d%\|"
)
_SYNTAX = re.compile(r"\s*File \"[^\"\n]+\", line \d+(?:, in \S.*)?$")


def _begins(body: str) -> re.Match[str] | None:
    """A frame with which a traceback begins whose head was not seen."""
    return _SYNTAX.match(body.lstrip(" |+")) if 'File "' in body else None


def _indent(body: str) -> int:
    return len(body) - len(body.lstrip(" \t|+"))


_NO_CLASS = frozenset(
    """
    Killed Aborted Terminated Note note fish bash Warning Epoch Step Rank Loss Process Usage Using
    Loading Saving Saved Processing Downloading Time Total Error Training
    """.split()  # noqa: SIM905
)


def _names_exception(match: re.Match[str], text: str) -> bool:
    last = match["kind"].rpartition(".")[2]
    if (last in _NO_CLASS and last == match["kind"]) or (not match["sign"] and " " in text):
        return False
    if last.isupper() and not last.endswith("ERROR"):  # INFO, GPU, the name of a host
        return False
    if "(" in last and "." not in match["kind"] and "Error(" not in last:  # MIOpen(HIP)
        return False
    return "." in match["kind"] or last[:1].isupper() or last.endswith(("error", "exception"))
