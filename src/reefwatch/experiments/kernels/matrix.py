"""A file under several Triton versions, a process each; what they saw as one record."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reefwatch import isa
from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.record import Event, Record
from reefwatch.experiments.kernels.environments import Environment

CHILD = "reefwatch.experiments.kernels.child"
SOURCE = "virtual GPU"


@dataclass(frozen=True)
class Job:
    """What is asked for."""

    file: Path
    targets: tuple[str, ...]
    limits: Mapping[str, int] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 3600.0


@dataclass
class Column:
    """What one version's process left."""

    asked: str
    version: str = ""
    torch: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    units: list[dict[str, Any]] = field(default_factory=list)
    failed: str = ""


def record(
    job: Job, environments: Sequence[Environment], cache: Path, say: Callable[[str], None]
) -> Record:
    """Run the file under each version in turn; the first that can be run leads."""
    columns: list[Column] = []
    with tempfile.TemporaryDirectory(prefix="reefwatch-") as scratch:
        for environment in environments:
            if environment.failed:
                columns.append(Column(environment.asked, failed=environment.failed))
                continue
            say(f"triton {environment.asked}: {job.file.name} on {', '.join(job.targets)}")
            leads = all(column.failed for column in columns)
            columns.append(_column(job, environment, Path(scratch), leads, cache))
    _mirror(columns)
    return joined(job, columns)


def _column(job: Job, environment: Environment, scratch: Path, leads: bool, cache: Path) -> Column:
    column = Column(environment.asked)
    rows = scratch / f"rows-{environment.asked}.jsonl"
    spool = scratch / "spool"
    spool.mkdir(exist_ok=True)
    asked = {
        "file": str(job.file.resolve()),
        "rows": str(rows),
        "targets": list(job.targets),
        "limits": dict(job.limits),
        "references": dict(job.references),
        "spool": str(spool),
        "leads": leads,
    }
    (scratch / "job.json").write_text(json.dumps(asked))
    cache.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [sys.executable, "-m", CHILD, str(scratch / "job.json")],
            env=environment.variables(cache),
            timeout=job.timeout,
            check=False,
        )
        column.failed = f"its process ended with {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        column.failed = f"it took longer than {job.timeout:.0f} s"
    if rows.exists():
        _read(rows, column)
    return column


def _read(path: Path, column: Column) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            told = json.loads(line)
        except ValueError:  # the last line of a process that was killed
            continue
        if "row" in told:
            column.rows.append(told["row"])
        elif "unit" in told:
            column.units.append(told["unit"])
        elif "failed" in told:
            column.failed = told["failed"]
        elif "version" in told:
            column.version, column.torch = told["version"], told["torch"]


def _mirror(columns: Sequence[Column]) -> None:
    """A version held against an earlier one is a witness for that one too."""
    rows = {
        (row["version"], row["kernel"], row["launch"]): row
        for column in columns
        for row in column.rows
    }
    for (version, kernel, launch), row in list(rows.items()):
        for target, subject in row.get("subjects", {}).items():
            for told in list(subject.get("witnesses", ())):
                if told["kind"] != "version" or told.get("mirrored"):
                    continue
                other = rows.get((told["name"], kernel, launch), {}).get("subjects", {})
                back = {**told, "name": version, "mirrored": True}
                back["backed"] = told.get("backs", [])
                back["values"] = list(reversed(told["values"]))
                other.get(target, {}).setdefault("witnesses", []).append(back)


def joined(job: Job, columns: Sequence[Column]) -> Record:
    """The columns as one record."""
    events = [
        Event("kernels.launch", row, id=f"{row['version']}/{n}")
        for column in columns
        for n, row in enumerate(column.rows)
    ]
    events += [
        Event("kernels.unit", {**unit, "version": column.version}, id=f"{column.version}/{n}")
        for column in columns
        for n, unit in enumerate(column.units)
    ]
    versions = {
        column.version or column.asked: {"asked": column.asked, "failed": column.failed}
        for column in columns
    }
    examined = sum(bool(event.data.get("examined")) for event in events)
    launches = sum(event.kind == "kernels.launch" for event in events)
    told: dict[str, Any] = {
        "versions": versions,
        "targets": list(job.targets),
        "launches": launches,
        "examined": examined,
    }
    facts: dict[str, Fact] = {"kernels.matrix": Evidence("kernels.matrix", told, source=SOURCE)}
    whole = Evidence("kernels.launches", launches, "launches", SOURCE)
    why = f"{job.file.name} launched no Triton kernel"
    broke = [c for c in columns if c.failed]
    failed = [unit for column in columns for unit in column.units if not unit["ok"]]
    if broke and len(broke) == len(columns):
        why = f"triton {broke[0].asked}: {broke[0].failed}"
    elif failed:
        why += f" before it failed: {failed[0]['error']}"
    facts["kernels.launches"] = whole if launches else Unknown(why)
    watching = Evidence("kernels.observers", list(isa.OBSERVERS), source=SOURCE)
    facts["kernels.observers"] = watching if launches else Unknown(why)
    ran = sum(len(column.units) for column in columns)
    facts["kernels.units"] = Evidence("kernels.units", ran, source=SOURCE) if ran else Unknown(why)
    header = {"script": job.file.name, "options": asdict(job)["limits"], "cwd": str(Path.cwd())}
    return Record(header, facts, tuple(events))
