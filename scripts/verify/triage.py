"""The bars of triage: the catalogue's records, each also without what was written from it; logs of
other people; runs that end well. Prints tables in Markdown.

    python scripts/verify/triage.py [--part records|left-out|others|healthy]
    python scripts/verify/triage.py --folder DIR
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import triage_healthy

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from reefwatch.triage.catalogue import families
from reefwatch.triage.decide import NAMED, decide
from reefwatch.triage.diagnosis import Diagnosis
from reefwatch.triage.family import Family
from reefwatch.triage.scan import Scanner

OTHERS = Path(__file__).resolve().parents[2] / "tests" / "data" / "triage"


@dataclass
class Tally:
    """What came of a set of logs."""

    logs: int = 0
    layer: int = 0
    known: int = 0
    named: int = 0
    wrong: int = 0
    roots: int = 0
    rooted: int = 0
    missed: list[str] = field(default_factory=list)

    def count(
        self, name: str, layer: str, family: str | None, root: str | None, told: Diagnosis
    ) -> None:
        self.logs += 1
        self.layer += told.layer == layer
        self.known += family is not None
        self.named += family is not None and told.family == family
        self.wrong += told.family is not None and told.family != family and told.confidence >= NAMED
        self.roots += root is not None
        rooted = root is None or root in told.root_line
        self.rooted += root is not None and rooted
        if told.layer != layer or told.family != family or not rooted:
            self.missed.append(
                f"{name}: {layer}, {family or 'none known'}; "
                f"told {told.layer}, {told.family or 'unknown'}"
            )


def share(part: int, of: int) -> float:
    return part / of if of else 1.0


def read(text: str, known: Sequence[Family], scanner: Scanner) -> Diagnosis:
    return decide([scanner.read([text.encode()])], known, ["log"])


def fed(record: Mapping[str, Any]) -> str:
    """The log of a record, else the lines of its signature."""
    return str(record.get("log") or "\n".join(record["signature"])) + "\n"


def machine_records() -> Iterator[tuple[Family, Mapping[str, Any]]]:
    for one in families():
        for record in one.records:
            if record.get("raw") == "machine":
                yield one, record


def records() -> Tally:
    known = families()
    scanner, tally = Scanner(known), Tally()
    for one, record in machine_records():
        told = read(fed(record), known, scanner)
        tally.count(record["id"], record["layer"], one.id, record.get("root_line"), told)
    return tally


def left_out() -> Tally:
    """Each record with the patterns gone that were written from it alone."""
    tally = Tally()
    for one, record in machine_records():
        known = [f.without(record["id"]) if f.id == one.id else f for f in families()]
        told = read(fed(record), known, Scanner(known))
        tally.count(record["id"], record["layer"], one.id, None, told)
    return tally


def others(file: str) -> Tally:
    known = families()
    scanner, tally = Scanner(known), Tally()
    for log in tomllib.loads((OTHERS / file).read_text())["log"]:
        told = read("\n".join(log["lines"]) + "\n", known, scanner)
        tally.count(log["id"], log["layer"], log["family"] or None, None, told)
    return tally


def healthy() -> tuple[int, list[str]]:
    """(runs, those of which a failure was claimed)."""
    known = families()
    scanner, claimed = Scanner(known), []
    for name in triage_healthy.CASES:
        print(f"healthy: {name}", file=sys.stderr)
        told = read(triage_healthy.output(name), known, scanner)
        if told.failed or told.family is not None:
            claimed.append(f"{name}: {told.layer}, {told.family}, {told.root_line}")
    return len(triage_healthy.CASES), claimed


def row(what: str, part: int, of: int, bar: float, at_most: bool = False) -> tuple[str, bool]:
    value = (part / of if of else 0.0) if at_most else share(part, of)
    met = value <= bar if at_most else value >= bar
    sign, said = "<=" if at_most else ">=", "met" if met else "NOT met"
    return (
        f"| {what} | {part} of {of} | {value:.1%} | {sign} {bar:.0%} | {said} |",
        met,
    )


def table(title: str, rows: Iterable[tuple[str, bool]], missed: Sequence[str]) -> tuple[str, bool]:
    made = list(rows)
    lines = [
        f"## {title}",
        "",
        "| what | count | share | bar | |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [text for text, _ in made] + [""]
    if missed:
        lines += ["Not as labelled:", "", *(f"- {one}" for one in missed), ""]
    return "\n".join(lines), all(met for _, met in made)


SETS = ("first.toml", "second.toml", "third.toml")
LABELS = ("fourth.toml", "fifth.toml", "sixth.toml")
"""Sets of which only labels and addresses are kept."""
LATER = tuple(f"{n}.toml" for n in ("seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"))
"""Later ones, drawn wider: CUDA as well as ROCm, builds, containers, launchers, parts of posts."""


def reading(file: str) -> dict[str, int]:
    """The figures of a set at its first reading, as noted then."""
    return dict(tomllib.loads((OTHERS / file).read_text())["first_reading"])


def of_folder(folder: Path) -> tuple[str, bool]:
    """The labelled logs whose text lies in a folder as `<id>.log`, read now."""
    known = families()
    scanner, tally, calm, claimed = Scanner(known), Tally(), 0, []
    for file in (*LABELS, *LATER):
        for log in tomllib.loads((OTHERS / file).read_text())["log"]:
            path = folder / f"{log['id']}.log"
            if not path.is_file():
                continue
            told = read(path.read_text(encoding="utf-8"), known, scanner)
            if log["layer"]:
                tally.count(log["id"], log["layer"], log["family"] or None, None, told)
            else:
                calm += 1
                claimed += [log["id"]] if told.failed else []
    now = {key: getattr(tally, key) for key in ("logs", "layer", "known", "named", "wrong")}
    rows = (*bars(now), row("a failure claimed of a run that went on", len(claimed), calm, 0, True))
    return table(f"Labelled logs of {folder.name}, as read now", rows, [*tally.missed, *claimed])


def bars(of: Mapping[str, int]) -> tuple[tuple[str, bool], ...]:
    """The rows of other people's logs."""
    return (
        row("layer", of["layer"], of["logs"], 0.90),
        row("known family named", of["named"], of["known"], 0.75),
        row("confidently wrong family", of["wrong"], of["logs"], 0.05, at_most=True),
    )


EVER = """All sets together, each at its first reading: layer {} of {} ({:.1%}). Each was read after
what the one before had shown was mended.
"""


def pooled(files: Sequence[str], keys: Sequence[str] = ()) -> dict[str, int]:
    """The figures of some sets at their first reading, added up."""
    sets = [reading(file) for file in files]
    return {key: sum(one[key] for one in sets) for key in keys or sets[0]}


def first_readings(title: str, files: Sequence[str]) -> tuple[str, bool]:
    """The table of some sets at their first reading, as noted then, with the healthy runs."""
    of = pooled(files)
    calm = row("a failure claimed", of["claimed"], of["healthy"], 0.0, at_most=True)
    return table(f"{title}, at their first reading (as noted then)", (*bars(of), calm), [])


def parts() -> dict[str, Any]:
    def of_records() -> tuple[str, bool]:
        t = records()
        rows = (
            row("layer", t.layer, t.logs, 0.97),
            row("family", t.named, t.known, 0.95),
            row("root line, where given", t.rooted, t.roots, 0.95),
        )
        return table("Records with machine output", rows, t.missed)

    def of_left_out() -> tuple[str, bool]:
        t = left_out()
        rows = (
            row("layer", t.layer, t.logs, 0.88),
            row("confidently wrong family", t.wrong, t.logs, 0.05, at_most=True),
        )
        text, met = table("The same, each with its own patterns left out", rows, t.missed)
        said = (
            f"The family was named all the same for {t.named} of {t.known}; else it was unknown.\n"
        )
        return f"{text}\n{said}", met

    def of_others() -> tuple[str, bool]:
        first = pooled(SETS)
        unseen = table(
            "Logs of other people, at their first reading (as noted then)", bars(first), []
        )
        count = sum(pooled(LABELS)[key] for key in ("logs", "healthy"))
        again = first_readings(f"{count} more logs", LABELS)
        each = [first_readings(f"The {Path(file).stem} set", (file,))[0] for file in LATER]
        later = first_readings("The later sets together", LATER)
        ever = pooled((*SETS, *LABELS, *LATER), ("layer", "logs"))
        told = EVER.format(ever["layer"], ever["logs"], share(ever["layer"], ever["logs"]))
        text = "\n".join((unseen[0], again[0], *each, later[0], told))
        unseen = (text, unseen[1] and again[1] and later[1])
        read_now = [others(file) for file in SETS]
        now = {key: sum(getattr(one, key) for one in read_now) for key in first}
        missed = [name for one in read_now for name in one.missed]
        seen = table("The same, after what they showed was mended", bars(now), missed)
        return "\n".join((unseen[0], seen[0])), unseen[1] and seen[1]

    def of_healthy() -> tuple[str, bool]:
        runs, claimed = healthy()
        return table(
            "Runs that ended well",
            [row("a failure claimed", len(claimed), runs, 0.0, True)],
            claimed,
        )

    return {
        "records": of_records,
        "left-out": of_left_out,
        "others": of_others,
        "healthy": of_healthy,
    }


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--part", choices=tuple(parts()), action="append")
    options.add_argument("--folder", type=Path, help="texts of the labelled logs, DIR/<id>.log")
    given = options.parse_args(argv)
    if given.folder is not None:
        text, met = of_folder(given.folder)
        print(text)
        return 0 if met else 1
    chosen = given.part or list(parts())
    met = True
    for name in chosen:
        print(f"part: {name}", file=sys.stderr)
        text, good = parts()[name]()
        print(text)
        met = met and good
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
