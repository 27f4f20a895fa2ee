"""One log: which clues were seen, which exceptions were raised, how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reefwatch.triage.clean import Clean, clean
from reefwatch.triage.family import Clue, Family
from reefwatch.triage.quotes import Quotes
from reefwatch.triage.stream import Hot, Stream
from reefwatch.triage.tracebacks import Raised, Tracebacks, opens

_MOST = 20_000
"""Forms of lines that are remembered."""
_FIRST, _LAST, _SAME = 200, 100, 20
_SPEAKS = (
    "error",
    "exception",
    "traceback",
    "fail",
    "interrupt",
    "fault:",
    "timeout:",
    "resources:",
    'file "',
)
_BASE = (
    *(
        "error",
        "exception",
        "traceback",
        "interrupt",
        "fail",
        "fault",
        "abort",
        "kill",
        "sig",
        "segm",
    ),
    *(
        "cannot",
        "could not",
        "unable",
        "no such",
        "found",
        "missing",
        "invalid",
        "support",
        "undefined",
        "unhandled",
    ),
    *(
        "timeout",
        "timed out",
        "out of",
        "limit",
        "denied",
        "permitted",
        "reset",
        "warning",
        "fatal",
        "illegal",
    ),
    *(
        "hip",
        "hsa",
        "gfx",
        "rocm",
        "rocr",
        "amd",
        "miopen",
        "rocblas",
        "nccl",
        "cuda",
        "nvidia",
        "triton",
        "torch",
    ),
    'file "',
    *("kernel", "device", "vram", "queue", "database", "version", "shared", "exit", "died"),
)
"""Words that most clues hold; what they do not cover is added clue by clue."""
_DIGITS = str.maketrans("123456789", "000000000")
_PROGRESS = re.compile(
    r"(?:\b(?:epochs?|steps?|iter(?:ation)?s?|loss|acc(?:uracy)?|val_\w+|ppl|lr|tokens?/s(?:ec)?|samples/s)\b\W{0,4}\d)"
    r"|\d(?:\.\d+)?(?:it/s|s/it|ms/step)|\b\d{1,3}%\|"
    r"|\b(?:[Tt]raining|[Tt]rain|[Ff]it|run|[Ee]valuation)\b"
    r".{0,40}\b(?:[Cc]omplete[d]?|[Ff]inished|done|stopped)\b"
    r"|\b(?:[Ss]aved|[Ss]aving)\b.{0,60}\b(?:checkpoint|model|weights|state)"
    r"|`Trainer\.fit` stopped|(?:^|[\s:.])[Dd]one[.!]?\s*(?:\(|$)"
)


@dataclass(frozen=True)
class Sighting:
    """A clue in a line."""

    text: str
    line: int
    stream: str
    wall: float | None
    file: int
    mild: bool = False
    """The line says of itself that it informs or warns: the same words may come with weight yet."""

    @property
    def order(self) -> tuple[float, int, int]:
        """By the clock where lines have one, else by place."""
        return (-1.0 if self.wall is None else self.wall, self.file, self.line)


@dataclass
class Scan:
    """What one log holds."""

    file: int = 0
    lines: int = 0
    seen: dict[tuple[str, str], Sighting] = field(default_factory=dict)
    """The first sighting by (family, clue)."""
    raised: list[tuple[Raised, Sighting]] = field(default_factory=list)
    going: tuple[int, ...] = ()
    """The numbers of the last lines that look like a training run going on."""
    done: int = 0
    """The number of a line near the end that says that it is done; 0 for none."""
    archs: tuple[str, ...] = ()
    """The gfx names that its noted lines hold."""
    timed: bool = False
    """Its lines have a date."""

    @property
    def progress(self) -> int:
        """The number of the last line that looks like a run going on; 0 for none."""
        return self.going[-1] if self.going else 0

    def went_on(self, line: int) -> int:
        """How many lines after that one look like a run going on."""
        return sum(number > line for number in self.going)


@dataclass
class _Form:
    """What is known of all lines that differ in digits only."""

    clues: list[tuple[str, Clue]]
    """Those that may match; one that did not, and does not look at digits, is taken out."""
    speaks: bool
    """It opens or links a traceback, or names an exception."""
    raised: int = 0
    """Exceptions that lines of this form named."""


class Scanner:
    """Knows the clues of all families; reads logs."""

    def __init__(self, families: Sequence[Family]) -> None:
        by_anchor: dict[str, list[tuple[str, Clue]]] = {}
        for one in families:
            for clue in one.clues.values():
                for anchor in clue.anchors:
                    by_anchor.setdefault(anchor.translate(_DIGITS), []).append((one.id, clue))
        self._by_word: dict[str, list[tuple[str, list[tuple[str, Clue]]]]] = {}
        words = hot_words(by_anchor)
        for anchor, pairs in by_anchor.items():
            word = next(word for word in words if word in anchor)
            self._by_word.setdefault(word, []).append((anchor, pairs))
        self._hot = Hot(words)
        self._forms: dict[str, _Form] = {}

    def read(self, chunks: Iterable[bytes], file: int = 0) -> Scan:
        """Read one log to its end. Raises NotText for what is no log."""
        scan, stream, traces = Scan(file), Stream(chunks, self._hot), Tracebacks()
        clock = _Clock()
        self._forms.clear()
        archs: dict[str, None] = {}
        for line in stream:
            form = self._form(line.text)
            if not form.clues and not form.speaks and not stream.hungry:
                clock.passed = line.text
                continue
            said = clean(line.text)
            when = clock.at(said)
            mild = is_mild(said)
            quoted = traces.quotes(said.body, said.stream)
            raised = traces.told(said.body, said.stream, line.number)
            stream.hungry = traces.hungry
            if raised is not None:
                place = Sighting(said.text[:1000], line.number, said.stream, when, file)
                _keep(scan.raised, (raised, place))
                form.raised += 1
                form.speaks = form.speaks and (form.raised < _SAME or not raised.loose)
            told = Quotes(said.body, quoted, raised is not None)
            for pair in tuple(form.clues):
                key = (pair[0], pair[1].name)
                known = scan.seen.get(key)
                if known is not None and (mild or not known.mild):
                    if not known.mild:
                        form.clues.remove(pair)
                    continue
                match = pair[1].pattern.search(said.text if pair[1].whole else said.body)
                if match is None:
                    if not pair[1].reads_digits:
                        form.clues.remove(pair)
                    continue
                if told.at(match.start()) and not pair[1].quoted:
                    continue
                text = _around(said.text, match[0])
                scan.seen[key] = Sighting(text, line.number, said.stream, when, file, mild=mild)
                archs.update(dict.fromkeys(re.findall(r"gfx[0-9a-f]{3,4}\b", said.body)))
        for raised in traces.cut():
            text = "Traceback (most recent call last):"
            if raised.frames:
                text = f'File "{raised.frames[-1][0]}", line {raised.frames[-1][1]}'
            place = Sighting(text, raised.line, raised.stream, clock.at(clean("")), file)
            _keep(scan.raised, (raised, place))
        scan.lines, scan.archs, scan.timed = max(stream.lines, 1), tuple(archs), clock.dated
        _end(scan, stream.tail.decode(errors="replace"))
        return scan

    def _form(self, text: str) -> _Form:
        """The form of a line, found or made."""
        key = text.translate(_DIGITS)
        known = self._forms.get(key)
        if known is None:
            low = key.lower()
            clues = {
                (owner, clue.name): (owner, clue)
                for word, anchors in self._by_word.items()
                if word in low
                for anchor, pairs in anchors
                if anchor in low
                for owner, clue in pairs
            }
            speaks = any(word in low for word in _SPEAKS) and opens(clean(text).body)
            known = _Form(list(clues.values()), speaks)
            if len(key) <= 2000:
                if len(self._forms) > _MOST:
                    self._forms.clear()
                self._forms[key] = known
        return known


_MILD = re.compile(
    r"\b(?:[A-Z]\w*)?Warning: |\bNCCL INFO\b|(?<!NCCL )\bWARN(?:ING)?\b|\bINFO\b|: W tensorflow"
    r"|\(HIP\): (?:Warning|Info)|^W tensorflow|level=(?:INFO|WARN|DEBUG)"
    r"|\bhip-(?:api|copy|sync|event) pid:|^\s*:[345]:\w+\.cpp\s*:\d+"  # HIP tells its calls
)


def is_mild(said: Clean) -> bool:
    """True for a line that a logger or `warnings` marks as less than an error."""
    return said.level in ("I", "W", "D") or _MILD.search(said.text) is not None


class _Clock:
    """The time of a line: its own, or that of the last one before it in its stream."""

    def __init__(self) -> None:
        self.passed = ""
        """A line that was passed over; it may have a time."""
        self.dated = False
        self._last: dict[str, float] = {}

    def at(self, said: Clean) -> float | None:
        if self.passed:
            before, self.passed = clean(self.passed), ""
            if before.wall is not None:
                self._last[before.stream] = before.wall
        if said.wall is not None:
            self.dated = True
            self._last[said.stream] = said.wall
        return self._last.get(said.stream)


def _end(scan: Scan, tail: str) -> None:
    """Where the run was last seen to go on, in the last part of the log."""
    number = scan.lines - tail.rstrip("\n").count("\n")
    going = []
    for part in tail.split("\n"):
        if _PROGRESS.search(part) and not _TROUBLE.search(part):
            going.append(number)
            if _DONE.search(part) and number > scan.lines - _NEAR:
                scan.done = number
        number += 1
    scan.going = tuple(going[-_FIRST:])


_NEAR = 30
"""Lines from the end within which a run says that it is done."""
_DONE = re.compile(
    r"\b(?:[Tt]raining|[Tt]rain|[Ff]it|[Rr]un|[Ff]ine-?tuning)\b.{0,40}\b(?:[Cc]omplete[d]?|[Ff]inished|done)\b"
    r"|\b[Ss]aved\b.{0,60}\b(?:checkpoint|model|weights)|`Trainer\.fit` stopped"
)
_TROUBLE = re.compile(r"[Ee]rror|Exception|[Tt]imeout|OpType|Memory access fault|HW Exception")


def hot_words(anchors: Iterable[str]) -> list[str]:
    """Few words of which every anchor holds one: fewer words, faster reading.

    Digits were made equal in anchors and are no word to look for.
    """
    words = list(_BASE)
    for anchor in sorted(anchors, key=len):
        if not any(word in anchor for word in words):
            words.append(max(re.split("0+", anchor), key=len).strip() or anchor)
    return words


def _keep(kept: list[tuple[Raised, Sighting]], one: tuple[Raised, Sighting]) -> None:
    kept.append(one)
    if len(kept) > _FIRST + _LAST:
        del kept[_FIRST]


def _around(text: str, match: str) -> str:
    """A long line, cut around what matched."""
    if len(text) <= 1000:
        return text
    at = max(text.find(match) - 200, 0)
    return text[at : at + 1000]
