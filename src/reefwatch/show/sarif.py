"""The report as SARIF 2.1.0, which code hosts show beside the source.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0; its sections are named where they
decide.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from reefwatch.core.finding import Finding, Outcome, Place, Severity, Verdict
from reefwatch.core.report import Report
from reefwatch.show import view, words
from reefwatch.show.json import valid

SCHEMA_URI = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.NOTE: "note", Severity.WARNING: "warning", Severity.ERROR: "error"}


def render(
    report: Report,
    pages: Mapping[str, str] | None = None,
    *,
    cwd: str | None = None,
    version: str = "",
) -> str:
    """SARIF of one run. `pages` are the help pages by code; paths are relative to `cwd` if inside.

    `cwd` is by default the folder in which the run was started, `version` that of reefwatch. A
    silenced finding is a result with a suppression. What was not proven is a notification of the
    tool, not a result: a viewer would count it as an alert.
    """
    folder = view.cwd(report) if cwd is None else cwd
    driver: dict[str, Any] = {
        "name": "reefwatch",
        "rules": [_rule(outcome, pages or {}) for outcome in _by_code(report).values()],
    }
    if version:
        driver["version"] = version
    errored = any(outcome.verdict is Verdict.ERRORED for outcome in report.outcomes)
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": not errored,
                "toolExecutionNotifications": list(_notifications(report)),
            }
        ],
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "where the run was started"}}},
        "columnKind": "unicodeCodePoints",
        "results": list(_results(report, folder)),
        "properties": {"lastLine": report.last_line(), "unclaimed": dict(report.unclaimed)},
    }
    document = {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}
    return json.dumps(valid(document), indent=2, allow_nan=False) + "\n"


def _by_code(report: Report) -> dict[str, Outcome]:
    """The first outcome of each code: failures inside Reefwatch share one."""
    return {outcome.code: outcome for outcome in reversed(report.outcomes)}


def _indexes(report: Report) -> dict[str, int]:
    return {code: index for index, code in enumerate(_by_code(report))}


def _rule(outcome: Outcome, pages: Mapping[str, str]) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": outcome.code,
        "shortDescription": {"text": _message(outcome.title)},
        "properties": {"tags": [words.line(outcome.contract, 100) or "other"]},
    }
    if pages.get(outcome.code):
        rule["help"] = {"text": words.visible(pages[outcome.code])}
    return rule


def _results(report: Report, folder: str) -> Iterator[dict[str, Any]]:
    script = str(view.first(report).header.get("script") or "")
    seen: Counter[str] = Counter()
    indexes = _indexes(report)
    for outcome in report.outcomes:
        told = [(finding, None) for finding in outcome.findings]
        for finding, reason in [*told, *outcome.silenced]:
            identity = _identity(outcome.code, finding.place, folder)
            seen[identity] += 1
            result = _result(outcome, finding, folder, script)
            result["ruleIndex"] = indexes[outcome.code]
            result["partialFingerprints"] = {"reefwatch/v1": f"{identity}:{seen[identity]}"}
            # Present on all or on none (3.27.23): an empty list says that nothing is suppressed.
            suppression = {"kind": "external", "justification": words.line(reason)}
            result["suppressions"] = [] if reason is None else [suppression]
            yield result


def _result(outcome: Outcome, finding: Finding, folder: str, script: str) -> dict[str, Any]:
    where = view.place(
        Place(op=finding.place.op, step=finding.place.step, ranks=finding.place.ranks)
    )
    parts = [
        finding.message,
        where and f"at: {where}",
        finding.claimed and f"claimed: {finding.claimed}",
    ]
    parts += [
        f"{k}: {v}"
        for k, v in (("why", finding.why), ("cost", finding.cost), ("fix", finding.fix))
        if v
    ]
    return {
        "ruleId": outcome.code,
        "level": _LEVELS[outcome.severity] if outcome.findings else "note",
        "message": {"text": "\n".join(_message(part) for part in parts if part)},
        "locations": [_location(finding.place, folder, script)],
        "properties": {
            "evidence": [
                {
                    "name": e.name,
                    "value": e.value,
                    "unit": e.unit,
                    "source": e.source,
                    "grade": e.grade,
                }
                for e in finding.evidence
            ]
        },
    }


def _message(text: str) -> str:
    return words.line(text) or "-"


def _location(place: Place, folder: str, script: str) -> dict[str, Any]:
    """Where it is; the script itself, without a line, when no file was seen."""
    location: dict[str, Any] = {}
    file = place.file or script
    if file:
        physical: dict[str, Any] = {"artifactLocation": artifact(file, folder)}
        if place.file and place.line > 0:
            physical["region"] = {"startLine": place.line}
        location["physicalLocation"] = physical
    name = words.line(place.module, 1000)
    if name:
        location["logicalLocations"] = [{"fullyQualifiedName": name, "kind": "module"}]
    return location


def artifact(file: str, folder: str) -> dict[str, str]:
    """A file as SARIF names it: relative to SRCROOT inside the folder, else as a file URI."""
    path = words.short_path(file, folder)
    if path != file and file.startswith(folder.rstrip("/") + "/"):
        return {"uri": _uri(path), "uriBaseId": "SRCROOT"}
    return {"uri": "file://" + _uri(file) if file.startswith("/") else _uri(file)}


def _uri(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape" if _escaped(path) else "backslashreplace"))


def _escaped(path: str) -> bool:
    """Whether its lone surrogates stand for bytes of a file name (PEP 383)."""
    lone = [ord(c) for c in path if 0xD800 <= ord(c) < 0xE000]
    return bool(lone) and all(0xDC80 <= c <= 0xDCFF for c in lone)


def _identity(code: str, place: Place, folder: str) -> str:
    """The same for the same finding in the next run: no line, step, rank or measured value."""
    parts = (code, place.module, place.op, words.short_path(place.file, folder))
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()[:32]


def _notifications(report: Report) -> Iterator[dict[str, Any]]:
    indexes = _indexes(report)
    for outcome in report.outcomes:
        if outcome.verdict in (Verdict.UNPROVEN, Verdict.ERRORED):
            yield {
                "level": "error" if outcome.verdict is Verdict.ERRORED else "note",
                "message": {"text": _message(f"{outcome.verdict.value}: {outcome.reason}")},
                "associatedRule": {"id": outcome.code, "index": indexes[outcome.code]},
            }
    for remark in report.remarks:
        yield {"level": "warning", "message": {"text": _message(remark)}}
