"""Which of the scanned files carry code for a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Coverage, Finding
from reefwatch.core.record import Case
from reefwatch.data import targets

Row = Mapping[str, Any]


def files(case: Case) -> list[Row]:
    """The files with code for AMD GPUs."""
    rows = [event.data for event in case.rows("codes.file")]
    return [row for row in rows if any(map(targets.is_amd, row["targets"]))]


def carries(row: Row, gpu: str) -> bool | None:
    """Whether a file has code that loads on `gpu`; None when features decide that are not known."""
    said = [targets.runs_on(target, gpu) for target in row["targets"]]
    if any(answer is True for answer in said):
        return True
    return None if any(answer is None for answer in said) else False


def lacking(case: Case, gpu: str) -> Iterator[tuple[Row, ...]]:
    """Files without code for `gpu`; those of one package with the same targets together.

    One whose path names another target counts only if no file of its package has the code.
    """
    rows = files(case)
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if carries(row, gpu) is not False:
            continue
        named = targets.named(row["path"]) is not None
        beside = [one for one in rows if one["package"] == row["package"] and one is not row]
        if not (named and any(carries(one, gpu) for one in beside)):
            alike.setdefault((row["package"], *sorted(row["targets"])), []).append(row)
    yield from map(tuple, alike.values())


def unread(case: Case) -> list[str]:
    """`file: why` of all that could not be read, or not whole."""
    rows = [event.data for event in case.rows("codes.file")]
    dark = [f"{row['path']}: {why}" for row in rows for why in row["unknown"]]
    return dark + [": ".join(map(str, one)) for one in case.value("codes.scan")["unread"] if one]


def first(reasons: list[str]) -> str:
    """The first reason, and how many more there are; empty when there is none."""
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return reasons[0] + more if reasons else ""


def covers(case: Case) -> tuple[Coverage, ...]:
    """Per GPU, the parts of files that have code for it."""
    rows = files(case)
    total = sum(row["parts"] for row in rows)
    return tuple(
        Coverage(f"pieces with code for {gpu}", _with(rows, gpu), total)
        for gpu in case.value("codes.gpus")
    )


def _with(rows: list[Row], gpu: str) -> int:
    """A lower bound: a piece that has the code under two names is counted once, by the larger."""
    return sum(
        max((n for target, n in row["targets"].items() if targets.runs_on(target, gpu)), default=0)
        for row in rows
    )


def listed(names: Any) -> str:
    """Targets in the order of their numbers, the first dozen."""
    ordered = sorted(names, key=lambda name: (len(name), name))
    more = f" and {len(ordered) - 12} more" if len(ordered) > 12 else ""
    return ", ".join(ordered[:12]) + more


def databases(case: Case, absence: str, why: str, fix: str) -> Iterator[Finding]:
    """Findings on kernel databases without files for a GPU, known by the names of files."""
    for event in case.rows("codes.database"):
        row = event.data
        if row["absence"] != absence:
            continue
        for gpu in case.value("codes.gpus"):
            if any(targets.runs_on(name, gpu) is not False for name in row["targets"]):
                continue
            said = Evidence(
                "codes.database", dict(row), source="names of files", grade=Grade.BY_NAME
            )
            yield Finding(
                f"{row['library']} in {row['package']} has files for {listed(row['targets'])}, "
                f"none for {gpu}",
                (said, case.evidence("codes.gpus")),
                why=why,
                fix=fix,
            )
