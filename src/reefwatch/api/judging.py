"""From records to a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from reefwatch.api.settings import Settings
from reefwatch.core.errors import UnreadableRecord
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.finding import Outcome, Verdict
from reefwatch.core.record import Record
from reefwatch.core.report import Report

_LOST = 8
"""Missing ranks that are judged: the others would say the same."""
SPAWNED = "spawned"
"""Name of the folders of spawned children inside a run's folder, before a dash and a number."""


def silences(settings: Settings, cwd: Path) -> tuple[Any, ...]:
    """The silences of the configuration and the baseline. Raises UsageError."""
    from reefwatch.judge import engine
    from reefwatch.store import silences as stored

    return tuple(stored.load(cwd, settings.config, settings.baseline, set(engine.codes())))


def pages() -> dict[str, str]:
    """The help page of each check, by code."""
    from reefwatch.judge import engine

    return {check.code: check.page for check in engine.load()}


def judged(
    command: str,
    records: Sequence[Record],
    claim: str | None = None,
    silenced: Sequence[Any] = (),
    failures: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
    selected: Sequence[Any] | None = None,
) -> Report:
    """The report over the records of all ranks. A `claim` overrides what they say of themselves.

    The `selected` checks judge. Without, those of the machine judge only a record that holds what
    they are about: a run makes no claim about the machine, unless it is held against a lock.
    """
    from datetime import date

    from reefwatch.judge import engine, ranks, silence

    if claim is not None:
        said = Evidence("claim.precision", claim, source="--claim")
        records = [
            replace(record, facts={**record.facts, "claim.precision": said}) for record in records
        ]
    at_work = [*of_the_work(records), *absent(records)]
    explained = list(ranks.together([_explained(record) for record in at_work]))
    if selected is None:
        outcomes, unclaimed = _all_but_the_machine(explained)
        outcomes += _of_the_machine(records)
    else:
        outcomes, unclaimed = engine.judge(explained, selected)
    found = [finding for outcome in outcomes for finding in outcome.findings]
    inline, unheeded = _inline(found)
    outcomes, remarks = silence.apply(outcomes, (*silenced, *inline), date.today())
    return Report(
        command,
        (*outcomes, *internal(records, failures or {})),
        unclaimed,
        tuple(records),
        tuple(dict.fromkeys((*_of_records(records), *unheeded, *remarks))),
        facts or {},
    )


def _inline(found: Sequence[Any]) -> tuple[Sequence[Any], Sequence[str]]:
    """(silences written beside the findings' lines, remarks); the store is not loaded for none."""
    if not any(finding.place.file for finding in found):
        return (), ()
    from reefwatch.judge import engine
    from reefwatch.store import silences as stored

    return stored.inline(found, set(engine.codes()))


def _all_but_the_machine(
    records: Sequence[Record],
) -> tuple[tuple[Outcome, ...], dict[str, str]]:
    from reefwatch.judge import engine

    return engine.judge(
        records, [one for one in engine.fitting(records) if one.contract != "machine"]
    )


def _of_the_machine(records: Sequence[Record]) -> tuple[Outcome, ...]:
    """Checks of the machine judge the records that hold what they are about: machine, codes, lock.

    A process that only started others counts here too; one that was never looked at does not.
    """
    from reefwatch.judge import engine

    if not any(_about(record) for record in records):
        return ()
    found: tuple[Outcome, ...] = ()
    for check in engine.load("machine"):
        needs = {name.partition(".")[0] for name in check.needs}
        holding = [record for record in records if needs & _about(record)]
        if holding:
            found += engine.judge([*holding, *absent(records)], [check])[0]
    return found


def _about(record: Record) -> set[str]:
    prefixes = {name.partition(".")[0] for name in record.facts}
    return prefixes & {"machine", "smoke", "port", "codes", "lock"}


def write_baseline(report: Report, path: Path, reason: str) -> int:
    """Write the findings of a report as silenced from now on; how many. Raises ReefwatchError."""
    from reefwatch.store import baseline

    return baseline.write(report, path, reason)


def of_the_work(records: Sequence[Record]) -> Sequence[Record]:
    """The records that bear a verdict: a parent that only started watched children is left out."""
    if len(records) < 2:
        return records
    working = [record for record in records if not _only_started_others(record)]
    return working or records


def absent(records: Sequence[Record]) -> list[Record]:
    """An empty record for each rank that left none: a claim holds where every rank was seen."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(str(record.header.get("group", "")), []).append(record)
    return [
        _lost(rank, ranks) for ranks in groups.values() for rank in islice(_missing(ranks), _LOST)
    ]


def _missing(records: Sequence[Record]) -> Iterable[int]:
    here = {record.rank for record in records}
    world = max(record.world for record in records)
    return (rank for rank in range(world) if rank not in here)


def _lost(rank: int, beside: Sequence[Record]) -> Record:
    world = max(record.world for record in beside)
    what = f"rank {rank} of {world}"
    if beside[0].header.get("group"):
        what += " spawned children"
    return Record({"rank": rank, "world": world}, damage=f"{what} left no record here")


def _only_started_others(record: Record) -> bool:
    children = record.fact("watch.children")
    return (
        isinstance(children, Evidence)
        and isinstance(children.value, Mapping)
        and bool(children.value.get("watched"))
        and not isinstance(record.fact("run.steps"), Evidence)
    )


def _explained(record: Record) -> Record:
    """The record, with the reason for which whole parts of it are missing, if there is one."""
    torch, failed = record.fact("env.torch"), record.facts.get("errored.watch")
    if record.damage:
        return record
    if isinstance(failed, Evidence) and isinstance(failed.value, Mapping):
        return replace(record, damage=f"the watch failed: {failed.value.get('error')}")
    if isinstance(torch, Unknown) and "env.torch" in record.facts:
        return replace(record, damage=torch.reason)
    return record


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
    return Outcome(
        "WATCH", f"{name} worked to the end", Verdict.ERRORED, reason=words, contract="watch"
    )


def _of_records(records: Iterable[Record]) -> Iterable[str]:
    """What the reader must know of the records themselves: damage, no end, missing ranks."""
    return (remark for record in records for remark in record.remarks)


def read(folders: Sequence[Path], own: Record | None = None) -> tuple[Record, ...]:
    """The records in these folders, those of spawned children behind the others.

    `own` is what this process has in memory. Each group of children has a folder of its own, with
    ranks from 0 on. Raises UnreadableRecord.
    """
    from reefwatch.store import reader

    records = reader.load(folders, own)
    run = records[0].header.get("run_id")
    for folder in folders:
        for group in sorted(folder.glob(f"{SPAWNED}-*")):
            try:
                children = reader.load([group])
            except UnreadableRecord as error:  # a child that died early: the others still count
                lost = {"rank": 0, "world": 1, "run_id": run, "group": group.name}
                records += (Record(lost, remarks=(f"not read: {error}",), damage=str(error)),)
                continue
            if children[0].header.get("run_id") == run:  # else of an earlier run with this --out
                # ranks are counted anew in each group
                records += tuple(
                    replace(one, header={**one.header, "group": group.name}) for one in children
                )
    return records


def free(folder: Path, rank: int) -> Path:
    """The folder for a spawned child: of the first group in which its rank has no record yet."""
    number = 1
    while (group := folder / f"{SPAWNED}-{number}" / f"rank{rank}.jsonl").exists():
        number += 1
    return group.parent
