"""The report as JUnit XML, which most CI systems read: one test case per check."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from reefwatch.core.finding import Finding, Outcome, Verdict
from reefwatch.core.report import Report
from reefwatch.show import view, words


def render(report: Report) -> str:
    """JUnit XML. Broken is a failure, errored an error, unproven is skipped with its reason."""
    root = ET.Element("testsuites", _counts(report.outcomes))
    root.set("name", words.line(f"reefwatch {report.command}", 200))
    folder = view.cwd(report)
    for section in view.sections(report):
        suite = ET.SubElement(root, "testsuite", _counts(section.outcomes))
        suite.set("name", words.line(section.contract, 200))
        for outcome in sorted(section.outcomes, key=lambda outcome: outcome.code):
            suite.append(_case(outcome, section.contract, folder))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _counts(outcomes: tuple[Outcome, ...]) -> dict[str, str]:
    said = [outcome.verdict for outcome in outcomes]
    return {
        "tests": str(len(said)),
        "failures": str(said.count(Verdict.BROKEN)),
        "errors": str(said.count(Verdict.ERRORED)),
        "skipped": str(said.count(Verdict.UNPROVEN)),
        "time": "0",
    }


def _case(outcome: Outcome, contract: str, folder: str) -> ET.Element:
    name = words.line(f"{outcome.code} {outcome.title}", 300)
    case = ET.Element("testcase", classname=words.line(contract, 200), name=name, time="0")
    reason = words.line(outcome.reason)
    if outcome.verdict is Verdict.BROKEN:
        messages = [words.line(finding.message, 300) for finding in outcome.findings]
        more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
        failure = ET.SubElement(case, "failure", type=outcome.severity.name.lower())
        failure.set("message", (messages[0] if messages else reason) + more)
        failure.text = "\n\n".join(_told(finding, folder) for finding in outcome.findings)
    elif outcome.verdict is Verdict.ERRORED:
        ET.SubElement(case, "error", type="errored", message=reason)
    elif outcome.verdict is Verdict.UNPROVEN:
        ET.SubElement(case, "skipped", message=f"unproven: {reason}")
    said = _aside(outcome, folder)
    if said:
        ET.SubElement(case, "system-out").text = said
    return case


def _told(finding: Finding, folder: str) -> str:
    parts = {
        "at": view.place(finding.place, folder),
        "claimed": finding.claimed,
        "seen": view.facts_of(finding),
        "why": finding.why,
        "cost": finding.cost,
        "fix": finding.fix,
    }
    rows = [f"  {word}: {words.line(text)}" for word, text in parts.items() if text]
    return "\n".join([words.line(finding.message), *rows])


def _aside(outcome: Outcome, folder: str) -> str:
    rows = [f"examined: {view.covered(outcome.coverage)}"] if outcome.coverage else []
    if outcome.verdict is Verdict.HELD:
        rows += [f"note: {_told(finding, folder)}" for finding in outcome.findings]
        rows += [f"remark: {words.line(outcome.reason)}"] if outcome.reason else []
    for finding, reason in outcome.silenced:
        rows.append(f"silenced ({words.line(reason, 300)}): {_told(finding, folder)}")
    return "\n".join(rows)
