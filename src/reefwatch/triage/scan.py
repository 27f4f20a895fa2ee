"""One log: which clues were seen, which exceptions were raised, how it ended."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reefwatch.triage.clean import clean, plain
from reefwatch.triage.family import Clue, Family
from reefwatch.triage.stream import Hot, Stream
from reefwatch.triage.tracebacks import Raised, Tracebacks

_TEMPLATES = 20_000
_FIRST, _LAST = 200, 100
_ALWAYS = ("traceback (most", "the above exception was", "during handling of the above", "exception ignored",
           "error", "exception", "failed", "interrupt")
_DIGITS = str.maketrans("123456789", "000000000")
_PROGRESS = re.compile(
    r"(?:\b(?:epochs?|steps?|iter(?:ation)?s?|loss|acc(?:uracy)?|val_\w+|ppl|lr|tokens?/s(?:ec)?|samples/s)\b\W{0,4}\d)"
    r"|\d(?:\.\d+)?(?:it/s|s/it|ms/step)|\b\d{1,3}%\|"
    r"|\b(?:[Tt]raining|[Tt]rain|[Ff]it|run|[Ee]valuation)\b.{0,40}\b(?:[Cc]omplete[d]?|[Ff]inished|done|stopped)\b"
    r"|\b(?:[Ss]aved|[Ss]aving)\b.{0,60}\b(?:checkpoint|model|weights|state)|`Trainer\.fit` stopped|\b[Dd]one\b"
)


@dataclass(frozen=True)
class Sighting:
    """A clue in a line."""

    text: str
    line: int
    stream: str
    wall: float | None
    file: int
    quoted: bool = False
    """The line is source text in a traceback: the same words may come as a message yet."""

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
    progress: int = 0
    """The number of the last line that looks like a training run going on; 0 for none."""
    tail: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    """The gfx names that its noted lines hold."""
    timed: bool = False
    """Its lines have a date."""


class Scanner:
    """Knows the clues of all families; reads logs."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._by_anchor: dict[str, list[tuple[str, Clue]]] = {}
        for one in families:
            for clue in one.clues.values():
                for anchor in clue.anchors:
                    key = anchor.translate(_DIGITS)
                    self._by_anchor.setdefault(key, []).append((one.id, clue))
        self._hot = Hot(_hot_words(self._by_anchor))
        self._templates: OrderedDict[str, tuple[tuple[str, Clue], ...]] = OrderedDict()

    def read(self, chunks: Iterable[bytes], file: int = 0) -> Scan:
        """Read one log to its end. Raises NotText for what is no log."""
        scan, stream, traces = Scan(file), Stream(chunks, self._hot), Tracebacks()
        wall: dict[str, float | None] = {}
        archs: dict[str, None] = {}
        for line in stream:
            said = clean(line.text)
            if said.wall is not None:
                wall[said.stream] = said.wall
                scan.timed = True
            when = said.wall if said.wall is not None else wall.get(said.stream)
            place = Sighting(_cut(said.text), line.number, said.stream, when, file)
            quoted = traces.quotes(said.body, said.stream)
            raised = traces.told(said.body, said.stream, line.number)
            stream.hungry = traces.hungry
            if raised is not None:
                _keep(scan.raised, (raised, place))
            for owner, clue in self._candidates(said.body):
                key = (owner, clue.name)
                if key not in scan.seen or (scan.seen[key].quoted and not quoted):
                    match = clue.pattern.search(said.body)
                    if match is not None:
                        text = _around(said.text, match[0])
                        scan.seen[key] = Sighting(text, line.number, said.stream, when, file, quoted)
                        archs.update(dict.fromkeys(re.findall(r"gfx[0-9a-f]{3,4}\b", said.body)))
        scan.lines, scan.archs = max(stream.lines, 1), tuple(archs)
        tail = stream.tail.decode(errors="replace")
        scan.tail = tuple(plain(part) for part in re.split(r"[\r\n]", tail))[-400:]
        ends = tail.count("\n") if tail.endswith("\n") else tail.count("\n") + 1
        numbers, number = [], scan.lines - ends + 1
        for part in tail.split("\n"):
            numbers.append((number, part))
            number += 1
        for number, part in reversed(numbers):
            if _PROGRESS.search(part) and not re.search(r"[Ee]rror|Exception", part):
                scan.progress = number
                break
        return scan

    def _candidates(self, body: str) -> tuple[tuple[str, Clue], ...]:
        """The clues whose fixed words the line holds; remembered for lines that differ in digits."""
        template = body.lower().translate(_DIGITS)
        known = self._templates.get(template)
        if known is None:
            known = tuple(
                pair
                for anchor, pairs in self._by_anchor.items()
                if anchor in template
                for pair in pairs
            )
            if len(template) > 2000:
                return known
            self._templates[template] = known
            if len(self._templates) > _TEMPLATES:
                self._templates.popitem(last=False)
        return known


def _hot_words(anchors: Iterable[str]) -> set[str]:
    """Few words of which every anchor holds one: fewer words, faster reading."""
    words = set(_ALWAYS)
    for anchor in sorted(anchors, key=len):
        plain_parts = re.split("0+", anchor)  # digits were made equal: they are no word to look for
        if any(word in anchor for word in words):
            continue
        words.add(max(plain_parts, key=len).strip() or anchor)
    return words


def _keep(kept: list[tuple[Raised, Sighting]], one: tuple[Raised, Sighting]) -> None:
    kept.append(one)
    if len(kept) > _FIRST + _LAST:
        del kept[_FIRST]


def _cut(text: str) -> str:
    return text if len(text) <= 1000 else text[:1000]


def _around(text: str, match: str) -> str:
    """A long line, cut around what matched."""
    if len(text) <= 1000:
        return text
    at = max(text.find(match) - 200, 0)
    return text[at : at + 1000]
