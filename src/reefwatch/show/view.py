"""What a report holds, in the order in which it is shown. Reads, never judges.

A record may come from another version or a damaged file, so a fact of another shape than
docs/record.md says is left out here rather than trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reefwatch.core.claim import CONTRACTS
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.finding import Coverage, Finding, Outcome, Place, Severity, Verdict
from reefwatch.core.record import Case, Record
from reefwatch.core.report import Report
from reefwatch.show import words

WORST_FIRST = (Verdict.BROKEN, Verdict.ERRORED, Verdict.UNPROVEN, Verdict.HELD)
_NO_RECORD = Record()


@dataclass(frozen=True)
class Section:
    """The outcomes of one contract, worst first."""

    contract: str
    outcomes: tuple[Outcome, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its outcomes."""
        return self.outcomes[0].verdict

    @property
    def severity(self) -> Severity:
        """The highest severity among the broken ones."""
        broken = [o.severity for o in self.outcomes if o.verdict is Verdict.BROKEN]
        return max(broken, default=Severity.NOTE)

    def of(self, verdict: Verdict) -> tuple[Outcome, ...]:
        """Its outcomes with that verdict."""
        return tuple(o for o in self.outcomes if o.verdict is verdict)

    def tally(self) -> str:
        """`1 broken, 4 held`; zeros are left out."""
        counts = ((len(self.of(verdict)), verdict.value) for verdict in WORST_FIRST)
        return ", ".join(f"{count} {word}" for count, word in counts if count)

    def coverage(self) -> tuple[Coverage, ...]:
        """Per kind of coverage, the smallest share among its outcomes."""
        least: dict[str, Coverage] = {}
        for outcome in self.outcomes:
            for part in outcome.coverage:
                if part.what not in least or part.share < least[part.what].share:
                    least[part.what] = part
        return tuple(least.values())


def sections(report: Report) -> tuple[Section, ...]:
    """The contracts of a report, each with its outcomes, in the order of the contracts."""
    known = list(dict.fromkeys(CONTRACTS.values()))
    by_contract: dict[str, list[Outcome]] = {}
    for outcome in report.outcomes:
        by_contract.setdefault(outcome.contract or "other", []).append(outcome)
    order = [c for c in known if c in by_contract] + sorted(set(by_contract) - set(known))
    return tuple(Section(c, tuple(sorted(by_contract[c], key=_rank))) for c in order)


def _rank(outcome: Outcome) -> tuple[int, int, str]:
    return (WORST_FIRST.index(outcome.verdict), -int(outcome.severity), outcome.code)


def mark(outcome: Outcome) -> str:
    """The word for an outcome: its verdict, `warning` for one broken below error level."""
    if outcome.verdict is Verdict.BROKEN and outcome.severity < Severity.ERROR:
        return "warning"
    return outcome.verdict.value


def first(report: Report) -> Record:
    """The record of the lowest rank; an empty one when there is none."""
    return min(report.records, key=rank, default=_NO_RECORD)


def rank(record: Record) -> int:
    """The rank that a record names; 0 when it names none that is a number."""
    return int(words.finite(record.header.get("rank")) or 0)


def world(report: Report) -> int:
    """How many ranks the run had, as far as the records tell."""
    told = [int(words.finite(r.header.get("world")) or 1) for r in report.records]
    return max([*told, len(report.records), 1])


def cwd(report: Report) -> str:
    """The folder in which the run was started, "" when not known."""
    folder = first(report).header.get("cwd")
    return folder if isinstance(folder, str) else ""


def value(record: Record, name: str) -> Any:
    """The value of a fact; None when it is not known."""
    return Case(record).known(name)


def mapping(record: Record, name: str) -> Mapping[str, Any]:
    """The value of a fact that is a mapping; an empty one when it is not known."""
    known = value(record, name)
    return {str(k): v for k, v in known.items()} if isinstance(known, Mapping) else {}


def unknowns(record: Record) -> Iterator[tuple[str, str]]:
    """(name, reason) of the facts that are known to be not known."""
    for name, fact in sorted(record.facts.items()):
        if isinstance(fact, Unknown):
            yield name, fact.reason


def place(where: Place, cwd: str = "", limit: int = 300) -> str:
    """Where something was seen, paths shortened, on one line."""
    file = words.short_path(where.file, cwd)
    parts = [
        where.module,
        where.op,
        (f"{file}:{where.line}" if where.line else file) if file else "",
    ]
    if where.step is not None:
        parts.append(f"step {where.step}")
    if where.ranks:
        parts.append(ranks(where.ranks))
    return words.line(", ".join(part for part in parts if part), limit)


def ranks(numbers: tuple[int, ...]) -> str:
    """`rank 3`, `ranks 0-3, 6`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"rank {text}" if len(set(numbers)) == 1 else f"ranks {text}"


def covered(parts: tuple[Coverage, ...]) -> str:
    """`22 of 300 steps, all 61 modules`; no coverage is said as nothing."""
    return ", ".join(_covered(part) for part in parts)


def _covered(part: Coverage) -> str:
    what = words.line(part.what, 60)
    if part.what == "seconds" and part.seen == part.total:
        return f"all {words.seconds(part.total)}"
    if part.what == "seconds":
        return f"{words.seconds(part.seen)} of {words.seconds(part.total)}"
    if part.seen == part.total:
        return f"all {words.amount(part.total)} {what}" if part.total else f"no {what}"
    return f"{words.amount(part.seen)} of {words.amount(part.total)} {what}"


def least_first(parts: tuple[Coverage, ...], most: int) -> str:
    """The coverage of which the least was seen; the rest is in the report."""
    return covered(tuple(sorted(parts, key=lambda part: part.share)[:most]))


def codes(names: Iterable[str]) -> str:
    """`LOOP001-008 LOOP011`: three or more in a row are told by their ends."""
    runs: list[list[str]] = []
    for name in sorted(set(names)):
        last = runs[-1][-1] if runs else ""
        if last and name[:-3] == last[:-3] and _number(name) == _number(last) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    told = [[f"{run[0]}-{run[-1][-3:]}"] if len(run) > 2 else run for run in runs]
    return " ".join(name for run in told for name in run)


def _number(code: str) -> int:
    return int(code[-3:]) if code[-3:].isascii() and code[-3:].isdigit() else -9


def grouped(unclaimed: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason to the codes whose claim is not made for that reason."""
    by_reason: dict[str, list[str]] = {}
    for code, reason in sorted(unclaimed.items()):
        by_reason.setdefault(reason, []).append(code)
    return by_reason


def facts_of(finding: Finding) -> str:
    """The evidence of a finding on one line: `name value`, with the grade when not measured."""
    parts = []
    for evidence in finding.evidence[:6]:
        grade = "" if evidence.grade.weakness == 0 else f" ({evidence.grade.value})"
        parts.append(f"{evidence.name} {words.quantity(evidence.value, evidence.unit, 80)}{grade}")
    return words.line("; ".join(parts))


@dataclass(frozen=True)
class Run:
    """The head of a report: what ran, how long, how much of it was examined."""

    command: str
    script: str
    claim: str
    claimed_by: str
    seconds: float | None
    steps: int | None
    no_steps: str
    examined: int | None
    exit: str
    device: str
    torch: str
    ranks: int
    records: int
    started: str


def run(report: Report) -> Run:
    """The head of a report, from the record of the lowest rank."""
    record = first(report)
    header, ended = record.header, mapping(record, "run.exit")
    steps, claimed = record.fact("run.steps"), record.fact("claim.precision")
    claim = claimed if isinstance(claimed, Evidence) and claimed.value else None
    argv = header.get("argv")
    args = [str(a) for a in argv] if isinstance(argv, (list, tuple)) else []
    script = str(header.get("script") or (args[0] if args else ""))
    rest = args[1:] if args and args[0].endswith(script.rsplit("/", 1)[-1]) else args
    count = words.finite(mapping(record, "run.steps").get("count"))
    return Run(
        command=words.line(report.command, 40),
        script=words.line(" ".join([_name(script, cwd(report)), *rest]), 300),
        claim=words.line(claim.value, 40) if claim else "",
        claimed_by=words.line(claim.source, 60) if claim else "",
        seconds=words.finite(ended.get("seconds")),
        steps=None if count is None else int(count),
        no_steps=words.line(steps.reason, 200) if isinstance(steps, Unknown) else "",
        examined=_examined(record),
        exit=_exit(ended),
        device=_device(mapping(record, "env.device")),
        torch=_torch(record),
        ranks=world(report),
        records=len(report.records),
        started=words.line(header.get("started", ""), 40),
    )


def _name(script: str, folder: str) -> str:
    """The script inside the folder of the run, else its name alone; argv holds the whole path."""
    short = words.short_path(script, folder)
    return short.rsplit("/", 1)[-1] if short.startswith("/") else short


def _examined(record: Record) -> int | None:
    exam = words.finite(mapping(record, "watch.exam").get("steps"))
    steady = words.finite(mapping(record, "watch.budget").get("examined"))
    return None if exam is None and steady is None else int((exam or 0) + (steady or 0))


def _exit(ended: Mapping[str, Any]) -> str:
    if ended.get("exception"):
        return words.line(f"ended with {ended['exception']}", 200)
    code = ended.get("code")
    return f"exit code {words.line(code, 20)}" if code else ""


def _device(device: Mapping[str, Any]) -> str:
    name = words.line(device.get("name") or device.get("kind") or "", 80)
    count = words.finite(device.get("count"))
    return f"{int(count)} × {name}" if name and count and count > 1 else name


def _torch(record: Record) -> str:
    fact = record.fact("env.torch")
    if isinstance(fact, Unknown):
        return ""
    torch = mapping(record, "env.torch")
    built = [
        f"{name} {torch[key]}"
        for key, name in (("hip", "ROCm"), ("cuda", "CUDA"))
        if torch.get(key)
    ]
    return words.line(" ".join([f"torch {torch.get('version', '?')}", *built]), 80)
