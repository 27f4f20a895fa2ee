"""Read records, whole or not: what can be trusted of them, and in words what cannot."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from reefwatch.core.errors import UnreadableRecord
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.record import Record
from reefwatch.store.assembly import assemble
from reefwatch.store.scan import scan, why

FILE_NAME = re.compile(r"rank(\d{1,7})\.jsonl")
_FAR_APART = 1800.0
"""Seconds between the starts of two ranks above which they hardly belong to one launch."""


def read(path: Path) -> Record:
    """The record of one rank's file.

    A record without its end is read as far as it goes. After a line that was changed, removed or
    moved nothing is trusted: facts written there, or missing, are Unknown with that reason.
    Raises UnreadableRecord, in one line, when it is not a record, or one by a newer version.
    """
    found = scan(path)
    record = assemble(found.rows)
    if found.damage:
        reason = f"the record is damaged at line {found.damaged_line}"
        facts = dict(record.facts) | dict.fromkeys(found.distrusted, Unknown(reason))
        remark = f"{path.name}: {found.damage}; what follows it is not trusted"
        remarks = (*record.remarks, remark)
        return replace(record, facts=facts, complete=False, remarks=remarks, damage=reason)
    if not found.ended:
        how = "its last line is cut short" if found.cut else "it has no end line"
        remark = f"{path.name}: {how}: the process was killed, its disk was full, or it still runs"
        steps = record.facts.get("run.steps")
        if isinstance(steps, Evidence) and isinstance(steps.value, Mapping):
            remark += f"; what is said covers its first {steps.value.get('count')} steps"
        return replace(record, remarks=(*record.remarks, remark))
    return record


def load(paths: Sequence[Path], own: Record | None = None) -> tuple[Record, ...]:
    """The records of one run, by rank, out of files and folders (one per node, perhaps).

    `own` is what this process has in memory of its rank; it stands in for the file, which may have
    ended early. What is missing or could not be read is a remark of the first record.
    Raises UnreadableRecord when nothing can be read, a named file cannot, two different records are
    of one rank, or they are of different runs.
    """
    remarks: list[str] = []
    read_: dict[Path, Record] = {}
    failed: list[UnreadableRecord] = []
    for path in paths:
        if not os.path.isdir(path):
            record = read(path)
            read_.setdefault(_place(path), record)
            continue
        for file in _files(path, may_be_empty=own is not None):
            try:
                record = read(file)
                read_.setdefault(_place(file), record)
            except UnreadableRecord as error:
                failed.append(error)
    if own is not None:
        read_ = {path: record for path, record in read_.items() if record.rank != own.rank}
        read_[Path(f"rank{own.rank}")] = own
    if not read_:
        raise failed[0] if failed else UnreadableRecord("no record was named")
    remarks += [f"not read: {error}" for error in failed]
    by_rank = _by_rank(read_, remarks)
    remarks += _gaps(by_rank) + _apart(by_rank)
    first, *others = (by_rank[rank] for rank in sorted(by_rank))
    return replace(first, remarks=(*first.remarks, *remarks)), *others


def _place(path: Path) -> Path:
    """The same for all names of one file."""
    return Path(os.path.realpath(path))


def _files(folder: Path, may_be_empty: bool) -> list[Path]:
    """The record files in a folder. Raises UnreadableRecord, with a hint, when there are none."""
    try:
        names = sorted(folder.iterdir())
        found = [path for path in names if FILE_NAME.fullmatch(path.name)]
        if found or may_be_empty:
            return found
        runs = [
            p
            for p in names
            if os.path.isdir(p) and any(FILE_NAME.fullmatch(f.name) for f in p.iterdir())
        ]
    except OSError as error:
        raise UnreadableRecord(f"{folder}: {why(error)}") from None
    if runs:
        raise UnreadableRecord(
            f"{folder}: holds {len(runs)} runs, name one; the last is {runs[-1]}"
        )
    raise UnreadableRecord(f"{folder}: no record in it (rank0.jsonl is not there)")


def _by_rank(found: dict[Path, Record], remarks: list[str]) -> dict[int, Record]:
    """The records by rank; copies are told. Raises UnreadableRecord when they do not fit."""
    by_rank: dict[int, tuple[Path, Record]] = {}
    (whose, of_run), *_ = ((path, record.header.get("run_id")) for path, record in found.items())
    for path, record in found.items():
        other_run = record.header.get("run_id")
        if other_run != of_run:
            raise UnreadableRecord(
                f"{whose} and {path} are of different runs ({of_run} and {other_run})"
            )
        if record.rank not in by_rank:
            by_rank[record.rank] = path, record
            continue
        other, same = by_rank[record.rank]
        if repr(same) != repr(record):  # in which a NaN equals itself
            raise UnreadableRecord(f"rank {record.rank} has two records: {other} and {path}")
        remarks.append(f"{path} is a copy of {other}")
    return {rank: record for rank, (_, record) in by_rank.items()}


def _gaps(by_rank: dict[int, Record]) -> list[str]:
    world = max(record.world for record in by_rank.values())
    ends = [-1, *sorted(by_rank), max(world, *by_rank)]
    spans = [(low + 1, high - 1) for low, high in pairwise(ends) if high - low > 1]
    if not spans:
        return []
    word = "rank" if spans[0][0] == spans[-1][1] else "ranks"
    named = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
    return [f"no record of {word} {named} of {world}: nothing is said of what they did"]


def _apart(by_rank: dict[int, Record]) -> list[str]:
    """A remark when ranks started so far apart that they may be of different launches."""
    started = {}
    for rank, record in by_rank.items():
        try:
            started[rank] = datetime.fromisoformat(str(record.header["started"])).timestamp()
        except (KeyError, ValueError, OverflowError):
            continue
    if not started:
        return []
    first, last = min(started, key=started.__getitem__), max(started, key=started.__getitem__)
    seconds = started[last] - started[first]
    if seconds <= _FAR_APART:
        return []
    return [
        f"rank {last} started {seconds / 60:.0f} minutes after rank {first}: "
        "they may be of different launches"
    ]
