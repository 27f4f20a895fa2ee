"""From records to a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reefwatch.api.settings import Settings
from reefwatch.core.errors import UsageError
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Outcome, Verdict
from reefwatch.core.record import Record
from reefwatch.core.report import Report


def silences(settings: Settings, cwd: Path) -> tuple[Any, ...]:
    """The silences of the configuration and the baseline. Raises UsageError."""
    from reefwatch.store import silences as stored

    for path in (settings.config, settings.baseline):
        if path is not None and not path.is_file():
            raise UsageError(f"cannot read {str(path)!r}: no such file")
    return tuple(stored.load(cwd, settings.config, settings.baseline))


def judged(
    command: str,
    records: Sequence[Record],
    claim: str | None = None,
    silenced: Sequence[Any] = (),
    failures: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Report:
    """The report over the records of all ranks. A `claim` overrides what they say of themselves."""
    from datetime import date

    from reefwatch.judge import engine, silence

    if claim is not None:
        said = Evidence("claim.precision", claim, source="--claim")
        records = [
            replace(record, facts={**record.facts, "claim.precision": said}) for record in records
        ]
    outcomes, unclaimed = engine.judge(of_the_work(records))
    outcomes, remarks = silence.apply(outcomes, silenced, date.today())
    return Report(
        command,
        (*outcomes, *internal(records, failures or {})),
        unclaimed,
        tuple(records),
        (*about_ranks(records), *remarks),
        facts or {},
    )


def of_the_work(records: Sequence[Record]) -> Sequence[Record]:
    """The records that bear a verdict: a parent that only started watched children is left out."""
    if len(records) < 2:
        return records
    working = [record for record in records if not _only_started_others(record)]
    return working or records


def _only_started_others(record: Record) -> bool:
    children = record.fact("watch.children")
    return (
        isinstance(children, Evidence)
        and isinstance(children.value, Mapping)
        and bool(children.value.get("watched"))
        and not isinstance(record.fact("run.steps"), Evidence)
    )


def internal(records: Iterable[Record], failures: Mapping[str, str]) -> tuple[Outcome, ...]:
    """One errored outcome for each thing of Reefwatch's own that failed."""
    failed = dict(failures)
    for record in records:
        for name, fact in record.facts.items():
            if name.startswith("errored.") and isinstance(fact, Evidence):
                told = fact.value
                words = told.get("error", told) if isinstance(told, Mapping) else told
                failed.setdefault(name.removeprefix("errored."), str(words))
    return tuple(errored(name, words) for name, words in failed.items())


def errored(name: str, words: str) -> Outcome:
    """The outcome for a part of Reefwatch that failed."""
    return Outcome("WATCH", f"{name} worked", Verdict.ERRORED, reason=words, contract="watch")


def about_ranks(records: Sequence[Record]) -> tuple[str, ...]:
    """What the reader must know of the records themselves: damage, no end, missing ranks."""
    remarks: list[str] = []
    for record in records:
        whose = f"rank {record.rank}: " if len(records) > 1 else ""
        remarks += [whose + remark for remark in record.remarks]
        if not record.complete:
            remarks.append(whose + "the record has no end: killed, or still running")
    world = max((record.world for record in records), default=1)
    missing = sorted(set(range(world)) - {record.rank for record in records})
    if missing:
        some = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        remarks.append(f"{len(missing)} of {world} ranks are not in this report: {some}")
    return tuple(remarks)
