"""Two references against each other, offline: where do they part?"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.record import Event, Record
from reefwatch.core.report import Report


def compare(
    one: str | os.PathLike[str],
    two: str | os.PathLike[str],
    *,
    most: int | None = None,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
) -> Report:
    """Judge reference `two` by reference `one`. Raises UnreadableRecord, UsageError.

    Both were recorded apart, so nothing was put in place: where they were given other batches, the
    numbers say nothing and the claims are unproven.
    """
    from reefwatch.api import judging
    from reefwatch.api.settings import Settings
    from reefwatch.store import bundle

    size = most or bundle.MOST_SIZE
    left, right = bundle.Bundle(Path(one), size), bundle.Bundle(Path(two), size)
    settings = Settings.of(config=config, baseline=baseline)
    record = compared_record(left, right)
    silences = judging.silences(settings, Path.cwd())
    report = judging.judged("compare", [record], None, silences, facts={"folder": str(two)})
    outcomes = tuple(o for o in report.outcomes if o.code.startswith("REF"))
    return replace(report, outcomes=outcomes, unclaimed={})


def compared_record(left: Any, right: Any) -> Record:
    """The record that a run of `right` against `left` would have left."""
    from reefwatch.measure.sketches import WIDTH

    theirs = {kind: list(rows) for kind, rows in _split(left).items()}
    mine = _split(right)
    given = _given(theirs["given"], mine["given"])
    same = all(left.head.get(part) == right.head.get(part) for part in ("device", "torch"))
    events, met, missing = _rows(theirs["rows"], mine["rows"], same)
    facts: dict[str, Fact] = {
        "numerics.asked": Evidence("numerics.asked", False),
        "numerics.follows": Evidence("numerics.follows", True, source="compare"),
    }
    other = [e for e in given if e.data["step"] == 0 and not e.data["same"]]
    weight = sum(e.data["bytes"] for e in other)
    reason = ""
    if not met:
        reason = "the two references have no row in common"
    elif weight > 0.5 * sum(e.data["bytes"] for e in given if e.data["step"] == 0):
        reason = "the two runs were given other weights or batches: run one --against the other"
    value: dict[str, Any] = {
        "steps": sorted(set(left.head.get("steps", [])) & set(right.head.get("steps", []))),
        "of": left.head.get("steps", []),
        "rows": met,
        "rows_of": met + missing,
        "same_machine": same,
        "coarsest": min(
            (str(e.data["dtype"]) for e in events if e.data.get("dtype") in WIDTH),
            key=WIDTH.index,
            default="f64",
        ),
        "noise": left.head.get("noise", 0),
        "rerun": bool(left.head.get("rerun")),
        "fed": {},
    }
    curve = {
        "here": right.head.get("losses", []),
        "there": left.head.get("losses", []),
        "band": left.head.get("band", []),
    }
    for name, told in (("numerics.reference", value), ("numerics.curve", curve)):
        facts[name] = Unknown(reason) if reason else Evidence(name, told, source="compare")
    header = {"script": f"{left.folder.name} and {right.folder.name}", "options": {}}
    return Record(header, facts, (*given, *events))


def _split(bundle: Any) -> dict[str, list[Any]]:
    told: dict[str, list[Any]] = {"given": [], "rows": []}
    for row in bundle.rows():
        told["given" if "given" in row else "rows"].append(row)
    return told


def _given(theirs: list[Any], mine: list[Any]) -> list[Event]:
    digests = {row["given"]: row["digest"] for row in theirs}
    events = []
    for row in mine:
        step = int(row["given"].partition("/")[0])
        data = {
            "name": row["given"],
            "step": step,
            "shape": row["shape"],
            "dtype": row["dtype"],
            "same": digests.get(row["given"]) == row["digest"],
            "known": row["given"] in digests,
            "fed": False,
            "weight": row["weight"],
            "carried": bool(row.get("carried")),
            "constant": row["constant"],
            "bytes": row["bytes"],
        }
        events.append(Event("reference.given", data, step, row["given"]))
    return events


def _rows(theirs: list[Any], mine: list[Any], same: bool) -> tuple[list[Event], int, int]:
    """(events, rows in common, rows that one of them alone has)."""
    from reefwatch.measure.matching import match
    from reefwatch.measure.soft import Soft

    steps = {row["step"] for row in mine}
    pairs, missing = match(mine, [row for row in theirs if row["step"] in steps], same)
    rows, soft = [], Soft()
    for row, other in pairs:
        told = {**_plain(row), "matched": other is not None, "problem": ""}
        rows.append(told if other is None else {**told, **soft.compared(row, other, same)})
    rows += [{**_plain(row), "matched": False, "problem": "missing"} for row in missing]
    met = sum(other is not None for _, other in pairs)
    events = [Event("reference.row", row, row["step"], str(n)) for n, row in enumerate(rows)]
    return events, met, max(len(mine), met + len(missing)) - met


def _plain(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("sketch", "noise")}
