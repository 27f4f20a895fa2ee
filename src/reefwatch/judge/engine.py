"""Load the checks, select those that apply, judge."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reefwatch.core.check import Check
from reefwatch.core.errors import MalformedCheck
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.finding import Coverage, Finding, Outcome, Severity, Verdict
from reefwatch.core.record import Case, Record
from reefwatch.judge import checks, form

_WORST_FIRST = (Verdict.BROKEN, Verdict.ERRORED, Verdict.UNPROVEN, Verdict.HELD)


def load(contract: str = "") -> tuple[Check, ...]:
    """Every check in `judge/checks`, or those of one contract, by code.

    Raises MalformedCheck when a code is used twice.
    """
    found: dict[str, tuple[Check, str]] = {}
    home = importlib.import_module(f"{checks.__name__}.{contract}") if contract else checks
    for folder in pkgutil.walk_packages(home.__path__, home.__name__ + "."):
        module = importlib.import_module(folder.name)
        for value in vars(module).values():
            if not isinstance(value, Check):
                continue
            if value.code in found and found[value.code][0] is not value:
                raise MalformedCheck(
                    f"{value.code} is used twice: {found[value.code][1]} and {folder.name}"
                )
            found[value.code] = (value, folder.name)
    return tuple(found[code][0] for code in sorted(found))


def codes() -> frozenset[str]:
    """The code of every check, by the names of their files: nothing of them is loaded."""
    folders = pkgutil.walk_packages(checks.__path__, checks.__name__ + ".")
    names = (folder.name.rpartition(".")[2] for folder in folders if not folder.ispkg)
    return frozenset(name.partition("_")[0].upper() for name in names)


def judge_rank(check: Check, record: Record) -> Outcome | str:
    """What one check says of one rank's record; a string when the claim is not made there."""
    case = Case(record)
    outcome = Outcome(check.code, check.title, Verdict.HELD, contract=check.contract)
    for condition in check.when:
        name, _, wanted = condition.partition("=")
        fact = record.fact(name)
        if isinstance(fact, Unknown):
            return replace(outcome, verdict=Verdict.UNPROVEN, reason=fact.reason)
        if not fact.value or (wanted and fact.value not in wanted.split("|")):
            return _not_made(name, fact)
    for name in check.needs:
        fact = record.fact(name)
        if isinstance(fact, Unknown):
            return replace(outcome, verdict=Verdict.UNPROVEN, reason=fact.reason)
    try:
        findings = tuple(check.rule(case))
        coverage = check.covers(case) if check.covers else ()
        doubt = check.doubt(case) if check.doubt else ""
    except Exception as error:  # a broken check is an outcome, not the end of the report
        odd = form.foreign(check, record, load())
        if not odd and isinstance(error, ValueError) and " is not a valid " in str(error):
            odd = str(error)  # a word of the record that an enumeration does not have
        if odd:
            reason = f"the record is not one that this version can judge: {odd}"
            return replace(outcome, verdict=Verdict.UNPROVEN, reason=reason)
        reason = f"the check failed: {type(error).__name__}: {error}"
        return replace(outcome, verdict=Verdict.ERRORED, reason=reason)
    failed = _failed(record, check.contract) or doubt
    if failed:
        outcome = replace(outcome, verdict=Verdict.UNPROVEN, reason=failed)
    return settle(replace(outcome, coverage=coverage), findings, check.severity)


def _not_made(name: str, fact: Evidence) -> str:
    """Why a claim is not made: in the words of the source where the value alone says only no."""
    if fact.source and fact.value in (False, None, ""):
        return fact.source
    return f"{name} is {fact.value!r}" + (f" ({fact.source})" if fact.source else "")


def _failed(record: Record, contract: str) -> str:
    """How the watch, or the one instrument of the contract, failed before the run was over.

    What is found broken stays so. What would hold rests on the part that was seen until then, and
    its coverage says nothing of the rest.
    """
    for name in ("watch", contract):
        fact = record.facts.get(f"errored.{name}")
        if isinstance(fact, Evidence):
            told = fact.value if isinstance(fact.value, Mapping) else {}
            step = told.get("step", -1)
            when = f" in step {step}" if isinstance(step, int) and step >= 0 else ""
            return f"{name} failed{when}: {told.get('error', fact.value)}"
    return ""


def settle(outcome: Outcome, findings: Sequence[Finding], severity: Severity) -> Outcome:
    """The outcome with its findings, verdict and severity. Notes break no claim."""
    worst = max((finding.severity(severity) for finding in findings), default=Severity.NOTE)
    verdict = Verdict.BROKEN if worst > Severity.NOTE else outcome.verdict
    return replace(outcome, findings=tuple(findings), severity=worst, verdict=verdict)


def join_ranks(outcomes: Sequence[tuple[int, Outcome]]) -> Outcome:
    """One outcome for all ranks: the worst verdict; equal findings are told once with their ranks.

    A claim is held only if it is held on every rank.
    """
    if len(outcomes) == 1:
        return outcomes[0][1]
    by_verdict = sorted(outcomes, key=lambda pair: _WORST_FIRST.index(pair[1].verdict))
    worst = by_verdict[0][1]
    ranks: dict[tuple[str, str, str, int], list[int]] = {}
    first: dict[tuple[str, str, str, int], Finding] = {}
    for number, outcome in outcomes:
        for finding in outcome.findings:
            place = finding.place
            key = (finding.message, place.module, place.file, place.line)
            ranks.setdefault(key, []).append(number)
            first.setdefault(key, finding)
    findings = tuple(
        replace(finding, place=replace(finding.place, ranks=tuple(sorted(set(ranks[key])))))
        for key, finding in first.items()
    )
    reason = next((f"rank {rank}: {said.reason}" for rank, said in by_verdict if said.reason), "")
    verdicts = [said.verdict for _, said in by_verdict]
    beneath = next((v for v in verdicts if v is not Verdict.BROKEN), Verdict.HELD)
    severity = max(outcome.severity for _, outcome in outcomes)
    return replace(
        worst,
        findings=findings,
        severity=severity,
        reason=reason,
        coverage=_least([outcome.coverage for _, outcome in outcomes]),
        beneath=beneath,
    )


def _least(coverages: Iterable[tuple[Coverage, ...]]) -> tuple[Coverage, ...]:
    """Per kind of coverage, the rank that saw the smallest share."""
    least: dict[str, Coverage] = {}
    for coverage in coverages:
        for part in coverage:
            if part.what not in least or part.share < least[part.what].share:
                least[part.what] = part
    return tuple(least.values())


def fitting(records: Sequence[Record]) -> tuple[Check, ...]:
    """The checks that can say something of these records.

    A profiler trace, a trial of several ranks, a check of a resumption and a watched run have no
    fact in common, so none is judged by the checks of another. What compares ranks is for several
    of them; kernels are judged where their launches were looked at.
    """
    kinds = {str(record.header.get("kind", "")) for record in records}
    kind = next((kind for kind in _APART if kind in kinds), "")
    fits = {kind}
    if not kind and any(record.world > 1 for record in records):
        fits.add("ranks")
    launched = any(name.startswith("kernels.") for record in records for name in record.facts)
    return tuple(
        check
        for check in load()
        if _kind(check) in fits and (launched or check.contract != "kernels")
    )


_APART = ("trace", "dist", "resume")
"""Kinds of records with checks of their own, whose facts begin with the kind's name."""


def _kind(check: Check) -> str:
    """The kind of record that a check is about, by the facts that it needs."""
    heads = {name.partition(".")[0] for name in check.needs}
    return next((kind for kind in (*_APART, "ranks") if kind in heads), "")


def judge(
    records: Sequence[Record], selected: Sequence[Check] | None = None
) -> tuple[tuple[Outcome, ...], dict[str, str]]:
    """(outcomes, claims not made with the reason) of all checks over the records of all ranks.

    Without `selected`, of those that fit the records.
    """
    outcomes: list[Outcome] = []
    unclaimed: dict[str, str] = {}
    for check in fitting(records) if selected is None else selected:
        told = [(record.rank, judge_rank(check, record)) for record in records]
        made = [(rank, said) for rank, said in told if isinstance(said, Outcome)]
        if made:
            outcomes.append(join_ranks(made))
        elif told:
            unclaimed[check.code] = str(told[0][1])
    return tuple(outcomes), unclaimed
