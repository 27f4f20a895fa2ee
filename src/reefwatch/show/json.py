"""The report as JSON: one versioned schema for all verbs, the same bytes for the same report.

The schema lies beside this file, in `schema/report-1.schema.json`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.finding import Finding, Outcome, Place, Verdict
from reefwatch.core.record import Record
from reefwatch.core.report import SCHEMA, Report
from reefwatch.show import view


def render(report: Report) -> str:
    """The report as JSON text, ASCII, with a line end. NaN and infinities become strings."""
    count = report.count()
    document = {
        "schema": SCHEMA,
        "command": report.command,
        "counts": {verdict.value: count[verdict] for verdict in Verdict},
        "last_line": report.last_line(),
        "outcomes": [_outcome(outcome) for outcome in report.outcomes],
        "unclaimed": _sorted(report.unclaimed),
        "remarks": list(report.remarks),
        "facts": _sorted(report.facts),
        "records": [_record(record) for record in sorted(report.records, key=view.rank)],
    }
    return json.dumps(valid(document), indent=2, allow_nan=False) + "\n"


def valid(value: Any) -> Any:
    """The value in what JSON can say: `"NaN"`, `"Infinity"`, names for enums, text for the rest."""
    if isinstance(value, Enum):
        return valid(value.value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {_text(key): valid(part) for key, part in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (str, bytes)):
        parts = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [valid(part) for part in parts]
    return _text(value)


def _text(value: Any) -> str:
    """Text without lone surrogates (a file name that is not UTF-8), which few parsers take."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def _sorted(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: mapping[key] for key in sorted(mapping, key=str)}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "code": outcome.code,
        "title": outcome.title,
        "contract": outcome.contract,
        "verdict": outcome.verdict.value,
        "severity": outcome.severity.name.lower(),
        "reason": outcome.reason,
        "coverage": [
            {"what": part.what, "seen": part.seen, "total": part.total, "share": part.share}
            for part in outcome.coverage
        ],
        "findings": [_finding(finding) for finding in outcome.findings],
        "silenced": [
            {"finding": _finding(finding), "reason": reason} for finding, reason in outcome.silenced
        ],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "message": finding.message,
        "claimed": finding.claimed,
        "place": _place(finding.place),
        "why": finding.why,
        "cost": finding.cost,
        "fix": finding.fix,
        "evidence": [{"name": e.name, **_fact(e)} for e in finding.evidence],
    }


def _place(place: Place) -> dict[str, Any]:
    return {
        "module": place.module,
        "op": place.op,
        "file": place.file,
        "line": place.line,
        "step": place.step,
        "ranks": list(place.ranks),
    }


def _fact(fact: Fact) -> dict[str, Any]:
    if isinstance(fact, Unknown):
        return {"unknown": fact.reason}
    assert isinstance(fact, Evidence)
    return {
        "value": fact.value,
        "unit": fact.unit,
        "source": fact.source,
        "grade": fact.grade.value,
    }


def _record(record: Record) -> dict[str, Any]:
    kinds = Counter(event.kind for event in record.events)
    return {
        "header": _sorted(record.header),
        "complete": record.complete,
        "remarks": list(record.remarks),
        "facts": {name: _fact(record.facts[name]) for name in sorted(record.facts)},
        "events": _sorted(kinds),
    }
