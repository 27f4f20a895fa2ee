"""Rows of launches as the checks of kernels read them, and the verdict on one kernel.

No bug is announced on one witness. A result is called wrong when two witnesses of different kinds
contradict it and agree with each other, at least one of which does not come from the same compiler:
Triton's interpreter, a reference that the user named, another compiler version, the file's own
asserts. Other numbers of warps, other targets and another wave order come from the same compiler:
they count as second witnesses where a first one backs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Coverage, Place, Verdict
from reefwatch.core.record import Case, Event

Row = Mapping[str, Any]
STRONG = ("reference", "interpreter", "version")
WEAK = ("target", "warps", "the file's own assert")
"""Two of these together hold a result: they share a compiler, or are about the whole file."""
_WORST = (Verdict.BROKEN, Verdict.UNPROVEN, Verdict.HELD)


@dataclass(frozen=True)
class Said:
    """The verdict on one launch on one target, or on a kernel of one version and target."""

    kernel: str
    version: str
    target: str
    verdict: Verdict
    reason: str = ""
    against: tuple[Mapping[str, Any], ...] = ()
    """The witnesses that contradict the result."""
    by: tuple[str, ...] = ()
    """Kinds of witnesses that agree with it."""
    row: Row = field(default_factory=dict)
    ir: str = ""
    """What Triton's own IR says of it."""
    status: str = "ran"


def rows(case: Case) -> list[Row]:
    """The launches that were examined."""
    return [e.data for e in case.rows("kernels.launch") if e.data.get("examined")]


def failed_units(case: Case) -> dict[tuple[str, str], Row]:
    """Units of the file whose own checks failed, by version and unit."""
    return {
        (str(e.data.get("version")), str(e.data.get("unit"))): e.data
        for e in case.rows("kernels.unit")
        if not e.data.get("ok")
    }


def launches(case: Case) -> Iterator[Said]:
    """The verdict on every examined launch, on each of its targets."""
    units = failed_units(case)
    passed = {
        (str(e.data.get("version")), str(e.data.get("unit")))
        for e in case.rows("kernels.unit")
        if e.data.get("ok") and e.data.get("asserts")
    }
    for row in rows(case):
        unit = (str(row["version"]), str(row["unit"]))
        for n, (target, subject) in enumerate(row.get("subjects", {}).items()):
            # the first target's result is what was written back, and so what an assert saw
            yield launch(row, target, subject, units.get(unit), unit in passed and n == 0)


def verdicts(case: Case) -> list[Said]:
    """One for each kernel, version and target: the worst of its launches."""
    grouped: dict[tuple[str, str, str], list[Said]] = {}
    for said in launches(case):
        grouped.setdefault((said.kernel, said.version, said.target), []).append(said)
    return [min(group, key=lambda said: _WORST.index(said.verdict)) for group in grouped.values()]


def launch(
    row: Row, target: str, subject: Row, failed: Row | None = None, passed: bool = False
) -> Said:
    """The verdict on one launch on one target; `passed`: the file's asserts saw it and held."""
    who = (str(row["kernel"]), str(row["version"]), target)
    status = str(subject.get("status"))
    if status != "ran":
        words = {"failed": "does not compile: ", "stopped": "it stopped: "}.get(status, "")
        verdict = Verdict.BROKEN if status == "stopped" else Verdict.UNPROVEN
        return Said(*who, verdict, words + str(subject.get("reason")), row=row, status=status)
    said = list(subject.get("witnesses", ()))
    against = [one for one in said if not one["agrees"]]
    by = tuple(dict.fromkeys(one["kind"] for one in said if one["agrees"]))
    by += ("the file's own assert",) if passed else ()
    ir = _missing_compare(subject)
    asserted = failed is not None and failed.get("kind") == "AssertionError"
    odd = doubtful(row)
    kinds = agreed([w for w in against if not (odd and w["kind"] == "interpreter")], ir, asserted)
    if len(kinds) >= 2:
        told = f"contradicted by {listed(kinds)}"
        return Said(*who, Verdict.BROKEN, told, tuple(against), by, row, ir)
    if against and not backed(against) and set(by) & {"reference", "interpreter"}:
        names = listed(dict.fromkeys(one["name"] for one in against))
        told = f"{listed(by)} agree; {names} stands alone"
        return Said(*who, Verdict.HELD, told, tuple(against), by, row, ir)
    if against:
        names = listed(dict.fromkeys(one["name"] for one in against))
        told = f"{names} alone says otherwise: one witness is no proof"
        enough = {"version", "reference"} & {*by} or (odd and len({*by} & {*WEAK}) >= 2)
        if {one["kind"] for one in against} == {"interpreter"} and enough:
            told = f"Triton's interpreter alone says otherwise{odd}; {listed(by)} agree"
            return Said(*who, Verdict.HELD, told, tuple(against), by, row, ir)
        return Said(*who, Verdict.UNPROVEN, told, tuple(against), by, row, ir)
    if not set(by) & {*STRONG} and len(set(by) & {*WEAK}) < 2:
        why = str(row.get("interpreter") or "no other build could be run")
        told = f"no independent witness ({why})"
        return Said(*who, Verdict.UNPROVEN, told, (), by, row, ir)
    return Said(*who, Verdict.HELD, f"{listed(by)} agree", (), by, row, ir)


def agreed(against: Iterable[Row], ir: str, asserted: bool) -> list[str]:
    """Kinds of witnesses that contradict a result in the same way; one from outside is needed."""
    told = [str(one["kind"]) for one in against]
    kinds: list[str] = [kind for kind in ("reference", "interpreter") if kind in told]
    for one in against:
        backed = set(one.get("backed", ()))
        if one["kind"] in kinds or not (backed & {*kinds} or (asserted and not kinds)):
            continue
        kinds.append(str(one["kind"]))
    if kinds and asserted:
        kinds.append("the file's own assert")
    if kinds and ir:
        kinds.append("Triton's own IR")
    return kinds


def doubtful(row: Row) -> str:
    """Why Triton's interpreter is no witness here; "" when it is one."""
    if any(one[1] == "bf16" for one in row.get("arguments", ())):
        return ", which computes with the raw bits of bf16"
    return ""


def backed(against: Iterable[Row]) -> bool:
    """Is a witness against the result one from outside, or one that such a one agrees with?"""
    return any(one["kind"] in STRONG[:2] or one.get("backed") for one in against)


def _missing_compare(subject: Row) -> str:
    """A comparison that the IR had and has no more after the passes for the target."""
    counts = list(subject.get("compares", ()))
    if len(counts) != 2 or counts[1] >= counts[0]:
        return ""
    return f"{counts[0] - counts[1]} of {counts[0]} comparisons of the TTIR are gone from the TTGIR"


def listed(words: Iterable[str]) -> str:
    """`a, b and c`."""
    told = list(words)
    return " and ".join(filter(None, [", ".join(told[:-1]), *told[-1:]]))


def order(version: str) -> tuple[int, ...]:
    """A version as numbers, for sorting."""
    return tuple(int(part) for part in version.split("+")[0].split(".") if part.isdigit())


def history(said: Iterable[Said]) -> dict[tuple[str, str], str]:
    """Where versions differ, by kernel and target: `bad from 3.4.0 to 3.8.0, good in 3.9.0`."""
    grouped: dict[tuple[str, str], dict[str, Verdict]] = {}
    for one in said:
        grouped.setdefault((one.kernel, one.target), {})[one.version] = one.verdict
    told = {}
    for key, by_version in grouped.items():
        bad = sorted((v for v, w in by_version.items() if w is Verdict.BROKEN), key=order)
        good = sorted((v for v, w in by_version.items() if w is Verdict.HELD), key=order)
        if bad and len(by_version) > 1:
            words = f"first bad version: {bad[0]}"
            if len(bad) > 1:
                words += f" (bad: {', '.join(bad)})"
            told[key] = words + (f"; good: {', '.join(good)}" if good else "")
    return told


def place(row: Row) -> Place:
    """Where a kernel is defined."""
    return Place(str(row["kernel"]), "", str(row.get("file", "")), int(row.get("line", 0) or 0))


def where(loc: str, row: Row) -> Place:
    """The Triton source line that a report names, else the kernel."""
    file, _, line = loc.rpartition(":")
    if not file or not line.isdigit():
        return place(row)
    own = str(row.get("file", ""))
    if own.endswith(file.rpartition("/")[2]) and "/" not in file:
        file = own
    return Place(str(row["kernel"]), "", file, int(line))


def told(witness: Row) -> Evidence:
    """One contradiction as evidence."""
    value = {key: witness.get(key) for key in ("different", "of", "argument", "index", "values")}
    return Evidence(str(witness["name"]), value, source=str(witness["kind"]))


def covers(case: Case) -> tuple[Coverage, ...]:
    """How many launches were held against witnesses; how many kernels have a verdict."""
    matrix = case.known("kernels.matrix", {})
    said = verdicts(case)
    known = sum(one.verdict is not Verdict.UNPROVEN for one in said)
    return (
        Coverage("launches", matrix.get("examined", 0), matrix.get("launches", 0)),
        Coverage("kernels on targets and versions", known, len(said)),
    )


def graded(case: Case, key: str, line: str, row: Row, target: str) -> tuple[Grade, str]:
    """How sure a report on one program is: does another build lack it, or have it too?

    `key` and `line` name the list under a subject and the kind that is looked for.
    """
    same: list[str] = []
    without: list[str] = []
    builds = 0
    for other in rows(case):
        if any(other[part] != row[part] for part in ("kernel", "unit", "launch")):
            continue
        for name, subject in other.get("subjects", {}).items():
            build = f"{other['version']} on {name}"
            if subject.get("status") == "failed" or (other is row and name == target):
                continue
            builds += 1
            (same if line in kinds(subject, key) else without).append(build)
    if not builds:
        return Grade.PREDICTED, "seen in one build alone"
    if without:
        return Grade.MEASURED, f"not in the code of {listed(list(dict.fromkeys(without))[:4])}"
    return Grade.MEASURED, f"also in {listed(list(dict.fromkeys(same))[:4])}: the kernel's own"


def kinds(subject: Row, key: str) -> set[str]:
    """Kinds of reports, or of what the scan found."""
    found = subject.get("reports", ()) if key == "reports" else subject.get("scan", {}).get("found")
    return {str(one["kind"]) for one in found or ()}


def example(**changed: Any) -> Event:
    """A launch for the cases of a check; what is given as `subject__x` changes its subject."""
    subject: dict[str, Any] = {
        "status": "ran",
        "reason": "",
        "reports": [],
        "scan": {"facts": {}, "matrix": {}, "found": [], "unscanned": []},
        "compares": [2, 2],
        "witnesses": [_witness("interpreter", True), _witness("warps", True)],
    }
    row: dict[str, Any] = {
        "kernel": "add_kernel",
        "name": "add_kernel",
        "file": "kernels.py",
        "line": 7,
        "unit": "main",
        "version": "3.7.1",
        "grid": [4, 1, 1],
        "launch": 1,
        "examined": True,
        "interpreter": "",
        "specialisation": "add_kernel:0",
        "options": {"num_warps": 4},
        "constants": {},
        "arguments": [["x", "f32", [64]]],
    }
    for name, value in changed.items():
        if name.startswith("subject__"):
            subject[name.removeprefix("subject__")] = value
        else:
            row[name] = value
    row.setdefault("subjects", {"gfx1100": subject})
    return Event("kernels.launch", row, id=f"{row['version']}/{row['kernel']}/{row['launch']}")


def _witness(kind: str, agrees: bool, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": {"version": "3.9.0", "warps": "8 warps"}.get(kind, kind),
        "agrees": agrees,
        "different": 0 if agrees else 4,
        "of": 16,
        "worst": 0.0 if agrees else 9.0,
        "argument": "out_ptr",
        "index": 3,
        "values": [1.0, -1.0],
        "dtype": "f32",
        **more,
    }


witness = _witness
FACTS: dict[str, Any] = {
    "kernels__launches": 1,
    "kernels__units": 1,
    "kernels__observers": ["bounds", "LDS race"],
    "kernels__matrix": {
        "versions": {"3.7.1": {"asked": "3.7", "failed": ""}},
        "targets": ["gfx1100"],
        "launches": 1,
        "examined": 1,
    },
}
"""The facts of a small matrix, for the cases of a check."""
