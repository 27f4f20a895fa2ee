"""What a failure family is: one file of `data/failures` with clues, matches and its own cases."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import IntEnum
from typing import Any

from reefwatch.core.errors import ReefwatchError

if sys.version_info >= (3, 11):
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_parse as parser

LAYERS = ("python", "cpp_hip", "primitive", "unknown")
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SHORTEST = 3


_KEYS = {
    "": "id title layer component kind severity cause fix commands doctor checks sources over only"
    " collect good near clue match failure",
    "clue": "name pattern records source context quoted whole",
    "match": "clues role sure root unless layer component chip",
    "only": "archs gpus vendor wsl",
    "failure": "id title family layer component kind archs versions raw signature log"
    " log_note root_line root_is_last cause fix severity silent doctor confidence source"
    " op shape dtype noticed",
}
"""What a file may say, by table; another key is a slip of the pen and would be of no effect."""


class MalformedFamily(ReefwatchError):
    """A family file that does not say what a family must say."""


class Role(IntEnum):
    """What a match says about the failure; the highest one in a log decides."""

    WARNING = 0
    """Harmless: nothing failed."""
    END = 1
    """How the process ended: `Aborted`, an exit code, a launcher's summary."""
    REPORTER = 2
    """Somebody noticed: a fault, a timeout, a status code. The cause lies before it."""
    HINT = 3
    """Explains a hang or a slow run, but is printed by healthy runs too."""
    ERROR = 4
    """An error whose layer is known and whose family is not."""
    CAUSE = 5
    """The line that decides the diagnosis."""


@dataclass(frozen=True)
class Clue:
    """A line to look for."""

    name: str
    pattern: re.Pattern[str]
    anchors: tuple[str, ...]
    """Lower-case literals; every line that matches holds one of them."""
    records: tuple[str, ...] = ()
    """The failure records that the pattern was written from."""
    source: str = ""
    """The file of the library that prints the line; the pattern then rests on that text."""
    context: bool = False
    """It only tells what kind of machine this is, and is no sign of a failure."""
    quoted: bool = False
    """It holds for source text that the log shows too; else a quoted message counts for nothing."""
    whole: bool = False
    """It is looked for in the whole line, with what loggers and launchers put before it."""
    reads_digits: bool = True
    """Whether it matches may hang on which digits a line holds, not only on where."""


@dataclass(frozen=True)
class Match:
    """Which clues together name the family."""

    clues: tuple[str, ...]
    role: Role
    sure: float
    """0..1."""
    root: str
    """The clue whose line decides."""
    unless: tuple[str, ...] = ()
    """Clues that speak against it."""
    layer: str = ""
    component: str = ""
    """Where this match lies, if elsewhere than the family."""
    chip: bool = False
    """It counts only where the log or the machine names a chip that the family's `only` allows."""


@dataclass(frozen=True)
class Family:
    """A known issue; or, with `known` false, only a layer and a component."""

    id: str
    title: str
    layer: str
    component: str
    cause: str
    fix: str
    clues: Mapping[str, Clue]
    matches: tuple[Match, ...]
    known: bool = True
    kind: str = ""
    commands: tuple[str, ...] = ()
    doctor: str = ""
    checks: tuple[str, ...] = ()
    """Codes of the checks of `reefwatch doctor` that tell it beforehand."""
    sources: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    """Families that this one explains when both match."""
    only: Mapping[str, Any] = None  # type: ignore[assignment]
    """What a machine must be for the family to apply: `archs`, `gpus`, `wsl`, `vendor`."""
    collect: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()

    def without(self, record: str) -> Family:
        """The family as if that record had never been read: its patterns are gone."""
        clues = {
            name: clue
            for name, clue in self.clues.items()
            if clue.source or set(clue.records) - {record}
        }
        kept = tuple(m for m in self.matches if set(m.clues) <= clues.keys() and m.root in clues)
        return replace(self, clues=clues, matches=kept)


def family(raw: Mapping[str, Any], name: str, known: bool = True) -> Family:
    """A family from its table. Raises MalformedFamily, by name."""

    def refuse(why: str) -> MalformedFamily:
        return MalformedFamily(f"{name}: {why}")

    for where, table in _tables(raw):
        odd = [key for key in table if key not in _KEYS[where].split()]
        if odd:
            close = get_close_matches(odd[0], _KEYS[where].split(), 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            there = f"[[{where}]]: " if where else ""
            raise refuse(f"{there}unknown key {odd[0]!r}{hint}")
    told = str(raw.get("id", ""))
    if not _ID.fullmatch(told):
        raise refuse(f"id {told!r} is not lower-case words joined by '-'")
    for key in ("title", "layer", "component") + (("cause", "fix", "kind") if known else ()):
        if not isinstance(raw.get(key), str) or not raw[key].strip():
            raise refuse(f"{key} is missing")
    if raw["layer"] not in LAYERS:
        raise refuse(f"layer {raw['layer']!r} is none of {', '.join(LAYERS)}")
    records = tuple(raw.get("failure", ()))
    clues = {}
    for entry in raw.get("clue", ()):
        clue = _clue(entry, refuse, known)
        if clue.name in clues:
            raise refuse(f"clue {clue.name!r} is there twice")
        clues[clue.name] = clue
    machine = {str(r["id"]) for r in records if r.get("raw") == "machine"}
    for clue in clues.values():
        stray = set(clue.records) - machine
        if stray:
            raise refuse(
                f"clue {clue.name!r}: {', '.join(sorted(stray))} is no machine record here"
            )
    matches = tuple(_match(entry, clues, refuse) for entry in raw.get("match", ()))
    if not matches and (machine or not known):
        raise refuse("no [[match]]: nothing would ever be recognised")
    if known and matches and not (raw.get("good") and raw.get("near")):
        raise refuse("needs good and near cases: a log that is one, a log that only looks like one")
    return Family(
        told,
        raw["title"],
        raw["layer"],
        raw["component"],
        raw.get("cause", ""),
        raw.get("fix", ""),
        clues,
        matches,
        known,
        raw.get("kind", ""),
        tuple(raw.get("commands", ())),
        raw.get("doctor", ""),
        tuple(raw.get("checks", ())),
        tuple(raw.get("sources", ())),
        tuple(raw.get("over", ())),
        raw.get("only", {}),
        tuple(raw.get("collect", ())),
        tuple(raw.get("good", ())),
        tuple(raw.get("near", ())),
        records,
    )


def _tables(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every table of a family with the name that it goes under."""
    yield "", raw
    for where in ("clue", "match", "failure"):
        for entry in raw.get(where, ()):
            yield where, entry
    yield "only", raw.get("only", {})


def _clue(entry: Mapping[str, Any], refuse: Any, known: bool) -> Clue:
    name = str(entry.get("name", ""))
    try:
        pattern = re.compile(entry["pattern"])
    except (KeyError, TypeError, re.error) as error:
        raise refuse(f"clue {name!r}: its pattern is no regular expression ({error})") from None
    if not name:
        raise refuse(f"the clue {entry['pattern']!r} has no name")
    anchors = anchored(entry["pattern"])
    if not anchors:
        raise refuse(
            f"clue {name!r}: every line that it matches must hold {_SHORTEST} fixed characters"
        )
    records, source = tuple(entry.get("records", ())), str(entry.get("source", ""))
    if known and not records and not source:
        raise refuse(f"clue {name!r}: say which records or which library source it rests on")
    return Clue(
        name,
        pattern,
        anchors,
        records,
        source,
        context=bool(entry.get("context", False)),
        quoted=bool(entry.get("quoted", False)),
        whole=bool(entry.get("whole", False)),
        reads_digits=_reads_digits(parser.parse(entry["pattern"])),
    )


def _match(entry: Mapping[str, Any], clues: Mapping[str, Clue], refuse: Any) -> Match:
    names = tuple(entry.get("clues", ()))
    unless = tuple(entry.get("unless", ()))
    root = str(entry.get("root", names[0] if names else ""))
    unknown = [name for name in (*names, *unless, root) if name not in clues]
    if not names or unknown:
        raise refuse(f"a match names {', '.join(unknown) or 'no clue'}, which is not there")
    try:
        role = Role[str(entry.get("role", "cause")).upper()]
    except KeyError:
        raise refuse(f"role {entry['role']!r} is none of the known ones") from None
    sure = float(entry.get("sure", 0.9))
    if not 0 < sure <= 1:
        raise refuse(f"sure = {sure} is not within 0..1")
    layer = str(entry.get("layer", ""))
    if layer and layer not in LAYERS:
        raise refuse(f"layer {layer!r} is none of {', '.join(LAYERS)}")
    component, chip = str(entry.get("component", "")), bool(entry.get("chip", False))
    return Match(names, role, sure, root, unless, layer, component, chip)


def anchored(pattern: str) -> tuple[str, ...]:
    """Literals of which every match holds one, lower case; empty when there are none."""
    return _literals(parser.parse(pattern))


def _literals(tree: Any) -> tuple[str, ...]:
    """The best alternative of a sequence: a run of plain characters, or what a group must hold."""
    best: tuple[str, ...] = ()
    run = ""

    def better(found: tuple[str, ...]) -> tuple[str, ...]:
        if not found or min(map(len, found)) < _SHORTEST:
            return best
        if not best or min(map(len, found)) > min(map(len, best)):
            return found
        return best

    for op, value in tree:
        name = str(op)
        if name == "LITERAL":
            run += chr(value).lower()
            continue
        best, run = better((run,) if run else ()), ""
        if name == "SUBPATTERN":
            best = better(_literals(value[-1]))
        elif name == "BRANCH":
            parts = [_literals(part) for part in value[1]]
            if all(parts):
                best = better(tuple(word for part in parts for word in part))
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and value[0] > 0:
            best = better(_literals(value[2]))
        elif name == "ATOMIC_GROUP":
            best = better(_literals(value))
    return better((run,) if run else ())


def _reads_digits(tree: Any) -> bool:
    """True when the pattern tells one digit from another: a literal 1, a range 1-9."""
    for op, value in tree:
        name = str(op)
        if name in ("LITERAL", "NOT_LITERAL") and chr(value).isdigit():
            return True
        if name == "IN" and any(_tells(str(kind), what) for kind, what in value):
            return True
        if name == "SUBPATTERN" and _reads_digits(value[-1]):
            return True
        if name == "BRANCH" and any(map(_reads_digits, value[1])):
            return True
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and _reads_digits(value[2]):
            return True
        if name in ("ASSERT", "ASSERT_NOT") and _reads_digits(value[1]):
            return True
        if name == "ATOMIC_GROUP" and _reads_digits(value):
            return True
    return False


def _tells(kind: str, what: Any) -> bool:
    """True for a part of a set that holds some digits and not others."""
    if kind == "LITERAL":
        return chr(what).isdigit()
    if kind == "RANGE":
        held = [what[0] <= ord(digit) <= what[1] for digit in "0123456789"]
        return any(held) and not all(held)
    return False


def loaded(
    tables: Sequence[tuple[str, Mapping[str, Any]]], layers: Sequence[Mapping[str, Any]]
) -> tuple[Family, ...]:
    """The families of (file name, table) pairs, then the plain layers. Raises MalformedFamily."""
    found: dict[str, Family] = {}
    for name, raw in tables:
        one = family(raw, name)
        if name.removesuffix(".toml") != one.id:
            raise MalformedFamily(
                f"{name}: holds the family {one.id!r}, whose file is {one.id}.toml"
            )
        found[one.id] = one
    for raw in layers:
        one = family(raw, f"layers.toml: {raw.get('id')}", known=False)
        if one.id in found:
            raise MalformedFamily(f"layers.toml: {one.id!r} is there twice")
        found[one.id] = one
    for one in found.values():
        lost = [other for other in one.over if other not in found]
        if lost:
            raise MalformedFamily(
                f"{one.id}.toml: over names {', '.join(lost)}, which is not there"
            )
    return tuple(found.values())
