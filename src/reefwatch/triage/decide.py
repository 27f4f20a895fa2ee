"""From what the logs hold to one diagnosis: the earliest line that decides, not the last one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reefwatch.triage import roots
from reefwatch.triage.diagnosis import Diagnosis
from reefwatch.triage.family import Family, Match, Role
from reefwatch.triage.machine import ruled_out
from reefwatch.triage.nearest import nearest
from reefwatch.triage.scan import Scan, Sighting
from reefwatch.triage.tracebacks import Raised

NAMED = 0.5
"""From this confidence on the family is named; below it is only the nearest."""
_SURE = 0.6


@dataclass(frozen=True)
class Candidate:
    """One thing that the logs may be about."""

    family: Family
    match: Match
    root: Sighting
    raised: Raised | None = None
    lowered: bool = False
    """A hint only because just a warning told of it."""

    @property
    def role(self) -> Role:
        return self.match.role

    @property
    def layer(self) -> str:
        return self.match.layer or self.family.layer

    @property
    def order(self) -> tuple[bool, float, int, int, float]:
        """What is sure first, then what came first; of two in one line the surer one."""
        return (self.match.sure < _SURE, *self.root.order, -self.match.sure)


def decide(
    scans: Sequence[Scan],
    families: Sequence[Family],
    names: Sequence[str] = (),
    machine: Mapping[str, Any] | None = None,
) -> Diagnosis:
    """The diagnosis of the logs of one run. `names` are those of the files, `machine` its facts."""
    timed = len(scans) > 1 and all(scan.timed for scan in scans)
    found = _candidates(scans, families, timed)
    out: list[tuple[Candidate, str]] = []
    named = [a for scan in scans for a in scan.archs]
    for one in list(found):
        why = ruled_out(one.family, machine, named)
        if not why and one.match.chip and not (named or (machine or {}).get("archs")):
            why = "only on some chips; neither the log nor a machine names one"
        if why:
            found.remove(one)
            out.append((one, why))
    found = _plainer(_explained(found))
    errors = _exceptions(scans, found, timed)
    if any(one.role > Role.WARNING and one.family.id not in _LAST for one in found + errors):
        found = [one for one in found if one.family.id not in _LAST]
    chosen = _choose(found + errors, scans)
    told = Diagnosis() if chosen is None else _diagnosis(_placed_in(chosen, scans), names)
    if chosen is not None and chosen.role is Role.HINT:  # does anything say that it failed?
        bad = [
            one
            for one in found + errors
            if one.role not in (Role.HINT, Role.WARNING) and (one.match.sure >= NAMED or _cut(one))
        ]
        told = replace(told, failed=bool(bad))
    if chosen is None and not (found or errors):
        told = replace(told, cause=_NOTHING)
    elif chosen is None:
        told = replace(told, cause=_WENT_ON)
    also = _also(chosen, found + errors, names)
    also += [_entry("ruled out", one, names, why) for one, why in out]
    if told.failed and (told.family is None or told.confidence < NAMED):
        also += [
            {"what": "nearest", "family": one.id, "layer": one.layer, "title": one.title}
            for one in nearest(told.root_line, [c.root.text for c in found + errors], families)
            if one.id != told.family
        ]
    if told.failed and (told.family is None or told.confidence < 0.75) and chosen is not None:
        also += [{"what": "collect", "command": line} for line in _collect(chosen.family)]
    if chosen is not None and told.failed and told.family is not None:
        also += [{"what": "doctor", "code": code} for code in chosen.family.checks]
    if told.family is not None and told.confidence < NAMED:
        told = replace(told, family=None)
    return replace(told, also=tuple(also))


_MILD = 0.4
"""How sure an error is of no known family is that only a warning tells of."""
_NOTHING = "no failure was found in this log"
_CUT = "the log ends in a traceback, before the exception that it is of"
_WENT_ON = "no failure was found: what looks like one is harmless, and the run went on"


def _candidates(scans: Sequence[Scan], families: Sequence[Family], timed: bool) -> list[Candidate]:
    found = []
    for one in families:
        for match in one.matches:
            where = {}
            for name in (*match.clues, *match.unless):
                hits = [scan.seen[one.id, name] for scan in scans if (one.id, name) in scan.seen]
                if hits:
                    where[name] = min((_placed(hit, timed) for hit in hits), key=lambda h: h.order)
            if all(n in where for n in match.clues) and not any(n in where for n in match.unless):
                told = [name for name in match.clues if not one.clues[name].context]
                mild = match.role > Role.HINT and all(where[name].mild for name in told)
                if mild:  # only a warning said it
                    match = replace(match, role=Role.HINT)
                    if not one.known:
                        match = replace(match, sure=min(match.sure, _MILD))
                elif one.id.startswith("words-") and all(where[name].mild for name in told):
                    match = replace(match, role=Role.WARNING)
                found.append(Candidate(one, match, where[match.root], lowered=mild))
                break  # the first match that holds is the family's best
    return found


def _cut(one: Candidate) -> bool:
    """True for a traceback that the log ends in."""
    return one.raised is not None and not one.raised.kind and not one.raised.ignored


def _placed(hit: Sighting, timed: bool) -> Sighting:
    return hit if timed else replace(hit, wall=None)


def _explained(found: list[Candidate]) -> list[Candidate]:
    """Without those that another one of them explains."""
    kept = []
    for one in found:
        by = [
            c
            for c in found
            if one.family.id in c.family.over and c.role >= min(one.role, Role.HINT)
        ]
        if not by:
            kept.append(one)
    return kept


def _plainer(found: list[Candidate]) -> list[Candidate]:
    """Without plain layers whose line a family speaks of too."""
    told = {(c.root.file, c.root.line) for c in found if c.family.known}
    return [c for c in found if c.family.known or (c.root.file, c.root.line) not in told]


def _exceptions(scans: Sequence[Scan], found: Sequence[Candidate], timed: bool) -> list[Candidate]:
    """The exceptions of which no clue says more: of each stream the last chain, and its root."""
    told = {(c.root.file, c.root.line): c.role for c in sorted(found, key=lambda c: c.role)}
    made = []
    for scan in scans:
        streams: dict[str, list[tuple[Raised, Sighting]]] = {}
        for raised, place in scan.raised:
            streams.setdefault(raised.stream, []).append((raised, place))
        for said in streams.values():
            whole = [pair for pair in said if not pair[0].loose] or said
            chain = roots.deciding(whole, scan.going)
            raised, place = roots.root(chain)
            if (place.file, place.line) in told or any(
                told.get((other.file, other.line), Role.END) > Role.END for _, other in chain
            ):
                continue
            quiet = raised.ignored or (len(streams) == 1 and _calm_after(scan, place.line))
            made.append(Candidate(_PYTHON, _match_of(raised, quiet), _placed(place, timed), raised))
    return made


def _calm_after(scan: Scan, line: int) -> bool:
    """True when the run is seen to go on after the line, or to end well."""
    return scan.went_on(line) >= _SOME or scan.done > line > 0


_SOME = 2
"""Lines of a run going on that a bar drawn again does not make."""


_PYTHON = Family(
    "python-exception", "an exception in Python code", "python", "", "", "", {}, (), False
)


def _match_of(raised: Raised, quiet: bool) -> Match:
    if not raised.kind:  # the log ends before the exception
        return Match((), Role.WARNING if raised.ignored else Role.END, 0.4, "")
    role = Role.END if roots.WRAPPERS.search(raised.kind) else Role.ERROR
    if quiet or raised.kind.endswith("Warning"):
        role = Role.WARNING
    return Match((), role, 0.55 if raised.loose else 0.75, "")


def _choose(found: Sequence[Candidate], scans: Sequence[Scan]) -> Candidate | None:
    """The earliest candidate of the weightiest role that is there."""
    calm = max((scan.progress for scan in scans), default=0)
    weighty = [
        one
        for one in _lasting(found, scans)
        if not (one.role in (Role.WARNING, Role.HINT) and calm > one.root.line)
        and not (one.family.id.startswith("words-") and calm > one.root.line)
        and not (one.family.id == _PYTHON.id and one.role is Role.WARNING)
    ]
    if any(map(_cut, weighty)):  # something failed; what only warns does not tell what
        weighty = [c for c in weighty if c.role is not Role.HINT or c.lowered or not c.root.mild]
    if not weighty:
        return None
    top = max(one.role for one in weighty)
    pool = [one for one in weighty if one.role == top]
    if top is Role.WARNING:
        pool = [one for one in pool if one.family.known] or []
    if not pool:
        return None
    if top is Role.REPORTER:  # one with a family says more than one without
        pool = [one for one in pool if one.family.known] or pool
    return min(pool, key=lambda one: one.order)


_LAST = ("words-level", "words-frames")
"""They only tell that something failed: asked when nothing else does."""


_MANY = 5
"""Lines of a run going on after which what came before them did not end it."""


_LONG = 30
"""Lines of a run going on, up to where the log is cut, after which no error ended it."""


def _lasting(found: Sequence[Candidate], scans: Sequence[Scan]) -> list[Candidate]:
    """Without errors that the run went on after: to another one, or to an end that says done."""
    if len(scans) != 1 or any(one.root.stream for one in found):
        return list(found)  # other ranks go on while one has failed
    scan = scans[0]
    ends = [one.root.line for one in found if one.role >= Role.END]
    errors = [one.root.line for one in found if one.role >= Role.ERROR]
    if scan.done and scan.done > max(ends, default=0):
        return [one for one in found if one.role < Role.END]
    last = max(errors, default=0)
    between = scan.went_on
    if between(last) >= _LONG and last >= max(ends, default=0):  # the log is cut while it goes on
        return [one for one in found if one.role < Role.ERROR]
    return [
        one
        for one in found
        if one.role < Role.ERROR or between(one.root.line) - between(last) < _MANY
    ]


def _diagnosis(one: Candidate, names: Sequence[str]) -> Diagnosis:
    family, root = one.family, one.root
    failed = one.role is not Role.WARNING
    layer, component = one.layer, one.match.component or family.component
    cause, fix = family.cause, family.fix
    if one.raised is not None:
        component = component or _component(one.raised)
        cause = (
            cause
            or (_CUT if not one.raised.kind else "")
            or f"{one.raised.name}: {one.raised.said}".rstrip(": ")
        )
        where = "" if family.known else _where(one.raised)
        fix = f"{fix} ({where})" if fix and where else fix or where
    return Diagnosis(
        layer,
        component,
        family.id if family.known else None,
        family.title,
        family.kind,
        root.text.strip(),
        _name(root, names),
        root.line,
        one.match.sure,
        cause,
        fix,
        family.commands,
        family.sources,
        family.doctor,
        family.checks,
        failed=failed,
    )


def _placed_in(one: Candidate, scans: Sequence[Scan]) -> Candidate:
    """With the exception that its line names, so that the user's own frame can be told."""
    told = next((scan.raised for scan in scans if scan.file == one.root.file), [])
    here = next((raised for raised, place in told if place.line == one.root.line), None)
    return one if one.raised is not None else replace(one, raised=here)


def _name(root: Sighting, names: Sequence[str]) -> str:
    return names[root.file] if root.file < len(names) else ""


def _component(raised: Raised) -> str:
    """The package in whose file the exception was raised."""
    if not raised.frames:
        return ""
    file = raised.frames[-1][0].replace("\\", "/")
    package = re.search(r"(?:site|dist)-packages/([^/]+)", file)
    return package[1].removesuffix(".py") if package else "script"


def _where(raised: Raised) -> str:
    own = [f for f in raised.frames if "-packages" not in f[0] and not f[0].startswith("<")]
    if not own:
        return ""
    file, line, name = own[-1]
    return f"look at {file}:{line}" + (f", in {name}" if name else "")


_WORDS = {
    Role.WARNING: "harmless",
    Role.END: "reporter",
    Role.REPORTER: "reporter",
    Role.HINT: "other",
    Role.ERROR: "other",
    Role.CAUSE: "other",
}


def _also(
    chosen: Candidate | None, found: Sequence[Candidate], names: Sequence[str]
) -> list[dict[str, Any]]:
    def again(one: Candidate) -> bool:  # a plain layer of the line that is the answer
        place = (one.root.file, one.root.line)
        told = chosen is not None and place == (chosen.root.file, chosen.root.line)
        return told and not one.family.known

    rest = [one for one in found if one is not chosen and not again(one)]
    rest.sort(key=lambda one: (-one.role, one.order))
    return [_entry(_WORDS[one.role], one, names) for one in rest[:12]]


def _entry(what: str, one: Candidate, names: Sequence[str], why: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {
        "what": what,
        "family": one.family.id if one.family.known else None,
        "layer": one.layer,
        "root_line": one.root.text.strip()[:300],
        "file": _name(one.root, names) or None,
        "line_number": one.root.line,
    }
    return {**made, "why": why} if why else made


_ASK = {
    "python": (
        "python -m pip list",
        "python script.py 2>&1 | tee run.log  # the whole traceback",
    ),
    "cpp_hip": (
        "AMD_SERIALIZE_KERNEL=3 AMD_LOG_LEVEL=3 python script.py 2>&1 | tee run.log",
        "python -m torch.utils.collect_env",
        "sudo dmesg -T | grep -iE 'amdgpu|kfd|nvrm' | tail -n 200",
    ),
    "primitive": (
        "sudo dmesg -T | grep -iE 'amdgpu|kfd|nvrm|iommu' | tail -n 200",
        "rocminfo",
        "uname -r; cat /proc/cmdline",
        "id; ls -l /dev/kfd /dev/dri",
    ),
    "unknown": (
        "python script.py 2>&1 | tee run.log",
        "sudo dmesg -T | tail -n 200",
        "python -m torch.utils.collect_env",
    ),
}


def _collect(family: Family) -> tuple[str, ...]:
    return family.collect or _ASK[family.layer]
