"""What the HTML page shows, as plain values for its template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.core.finding import Finding, Outcome, Verdict
from reefwatch.core.record import Record
from reefwatch.core.report import Report
from reefwatch.show import bandwidth, charts, dtypes, view, words
from reefwatch.show.limits import Limits
from reefwatch.show.parting import parting


def context(report: Report, pages: Mapping[str, str], limits: Limits) -> dict[str, Any]:
    """Everything that the template names."""
    record, folder = view.first(report), view.cwd(report)
    outcomes = [o for section in view.sections(report) for o in section.outcomes]
    told = _Teller(folder, limits, pages, _findings(outcomes, limits))
    return {
        "report": report,
        "run": view.run(report),
        "rank": view.rank(record),
        "verdicts": _verdicts(report),
        "strip": _strip(report),
        "sections": [told.section(section) for section in view.sections(report)],
        "unbroken": _unbroken(report),
        "broken": [told.outcome(o) for o in outcomes if o.verdict is Verdict.BROKEN],
        "charts": [*charts.charts(record, limits.points), *bandwidth.charts(record)],
        "parting": parting(record, limits),
        "flow": dtypes.flow(record, limits, folder),
        "memory": dtypes.memory(record, limits),
        "ranks": _ranks(report, limits) if len(report.records) > 1 else [],
        "environment": _environment_rows(record, limits),
        "unseen": _unseen(report, limits),
    }


def _verdicts(report: Report) -> list[dict[str, Any]]:
    """The verdicts with their number, in words; `errored` only when there is one."""
    count = report.count()
    warnings = sum(view.mark(outcome) == "warning" for outcome in report.outcomes)
    said = {Verdict.BROKEN: f"({words.several(warnings, 'warning')})" if warnings else ""}
    return [
        {"word": verdict.value, "count": count[verdict], "aside": said.get(verdict, "")}
        for verdict in (Verdict.HELD, Verdict.BROKEN, Verdict.UNPROVEN, Verdict.ERRORED)
        if count[verdict] or verdict is not Verdict.ERRORED
    ]


def _unbroken(report: Report) -> str:
    """What is said in place of findings. Nothing broken is not everything proven."""
    if not report.outcomes:
        return "Nothing was judged: no check applies to what was recorded."
    count = report.count()
    open_ = [(count[v], v.value) for v in (Verdict.UNPROVEN, Verdict.ERRORED) if count[v]]
    rest = " and ".join(f"{number} {word}" for number, word in open_)
    return f"No claim is broken; {rest}." if rest else "No claim is broken."


def _strip(report: Report) -> list[dict[str, str]]:
    """The verdicts as a bar, warnings apart from errors."""
    count = Counter(view.mark(outcome) for outcome in report.outcomes)
    order = ("held", "broken", "warning", "unproven", "errored")
    return [
        {"word": word, "percent": f"{100 * count[word] / len(report.outcomes):.2f}"}
        for word in order
        if count[word]
    ]


def _findings(outcomes: list[Outcome], limits: Limits) -> int:
    """Findings shown of one outcome: many outcomes with many findings share the room."""
    share = 400 // max(1, sum(bool(outcome.findings) for outcome in outcomes))
    return max(1, min(limits.findings, share))


@dataclass(frozen=True)
class _Teller:
    """Turns outcomes and findings into what the template shows."""

    folder: str
    limits: Limits
    pages: Mapping[str, str]
    most: int
    """Findings of one outcome."""

    def text(self, text: Any) -> str:
        return words.line(text, self.limits.text)

    def section(self, section: view.Section) -> dict[str, Any]:
        return {
            "contract": self.text(section.contract),
            "tally": section.tally(),
            "mark": view.mark(section.outcomes[0]),
            "outcomes": [
                self.outcome(o, o.verdict is not Verdict.BROKEN) for o in section.outcomes
            ],
        }

    def outcome(self, outcome: Outcome, findings: bool = True) -> dict[str, Any]:
        most = self.most if findings else 0
        page = words.visible(self.pages.get(outcome.code, ""))
        return {
            "code": self.text(outcome.code),
            "title": self.text(outcome.title),
            "mark": view.mark(outcome),
            "reason": self.text(outcome.reason),
            "coverage": [
                {
                    "text": view.covered((part,)),
                    "percent": f"{100 * min(1.0, max(0.0, part.share)):.1f}",
                }
                for part in outcome.coverage
            ],
            "findings": [self.finding(finding) for finding in outcome.findings[:most]],
            "more": max(0, len(outcome.findings) - most),
            "count": len(outcome.findings),
            "silenced": [
                {"finding": self.finding(finding), "reason": self.text(reason)}
                for finding, reason in outcome.silenced[: self.most]
            ],
            "page": words.clip(page, self.limits.page) if self.limits.page else "",
        }

    def finding(self, finding: Finding) -> dict[str, Any]:
        return {
            "message": self.text(finding.message),
            "place": view.place(finding.place, self.folder, self.limits.text),
            "parts": [
                (name, self.text(text))
                for name, text in (
                    ("claimed", finding.claimed),
                    ("why", finding.why),
                    ("cost", finding.cost),
                )
                if text
            ],
            "fix": self.text(finding.fix),
            "evidence": [
                {
                    "name": self.text(evidence.name),
                    "value": words.quantity(evidence.value, evidence.unit, self.limits.text),
                    "source": self.text(evidence.source),
                    "grade": evidence.grade.value,
                }
                for evidence in finding.evidence[: self.limits.evidence]
            ],
            "more": max(0, len(finding.evidence) - self.limits.evidence),
        }


def _ranks(report: Report, limits: Limits) -> list[dict[str, str]]:
    """One row per rank: steps, step time, memory, how it ended."""
    rows = []
    for record in sorted(report.records, key=view.rank)[: limits.rows]:
        steps, memory = view.mapping(record, "perf.steps"), view.mapping(record, "perf.memory")
        count, median = words.finite(steps.get("count")), words.finite(steps.get("median"))
        peak = words.finite(memory.get("peak"))
        code = view.mapping(record, "run.exit").get("code")
        rows.append(
            {
                "rank": str(view.rank(record)),
                "host": words.line(record.header.get("host", ""), 80),
                "steps": "" if count is None else words.amount(count),
                "median": "" if median is None else words.seconds(median),
                "peak": "" if peak is None else words.size(peak),
                "exit": "" if code is None else words.line(code, 20),
                "record": "complete" if record.complete else "has no end",
            }
        )
    return rows


_ENVIRONMENT = (
    "env.device",
    "env.torch",
    "precision.flags",
    "perf.device",
    "perf.link",
    "perf.cards",
)
_WATCHING = ("watch.exam", "watch.budget", "watch.cost", "watch.compile", "watch.children")
_HARDWARE = (
    "perf.spread", "perf.busy", "perf.heat", "perf.clock", "perf.cap", "perf.room", "perf.wait",
)  # fmt: skip
_HEADER = ("python", "reefwatch", "started", "host", "cwd", "argv", "options", "run_id", "world")


def _environment_rows(record: Record, limits: Limits) -> list[tuple[str, list[tuple[str, str]]]]:
    """Named groups of (name, value)."""
    head = [
        (key.replace("_", " "), _header(record.header[key], limits))
        for key in _HEADER
        if record.header.get(key) not in (None, "", {}, [])
    ]
    groups = [("run", head)]
    for title, names in (
        ("machine and software", _ENVIRONMENT),
        ("state of the hardware", _HARDWARE),
        ("watching", _WATCHING),
    ):
        rows = [(name, _fact(record, name, limits)) for name in names if name in record.facts]
        groups.append((title, rows))
    return [(title, rows) for title, rows in groups if rows]


def _header(value: Any, limits: Limits) -> str:
    if isinstance(value, (list, tuple)):  # a command line
        return words.line(" ".join(map(str, value)), limits.text)
    return words.quantity(value, "", limits.text)


def _fact(record: Record, name: str, limits: Limits) -> str:
    fact = record.fact(name)
    if isinstance(fact, Unknown):
        return words.line(f"not known: {fact.reason}", limits.text)
    return words.quantity(fact.value, fact.unit, limits.text)


def _unseen(report: Report, limits: Limits) -> list[tuple[str, list[tuple[str, str]]]]:
    """What the report does not rest on, in named groups of (what, why)."""
    record = view.first(report)
    unproven = [(o.code, o.reason) for o in report.outcomes if o.verdict is Verdict.UNPROVEN]
    failed = [(o.code, o.reason) for o in report.outcomes if o.verdict is Verdict.ERRORED]
    failed += [
        (name.removeprefix("errored."), _fact(record, name, limits))
        for name in sorted(record.facts)
        if name.startswith("errored.")
    ]
    ops = view.mapping(record, "precision.ops").get("unseen")
    unseen = (
        [("operations", str(reason)) for reason in ops] if isinstance(ops, (list, tuple)) else []
    )
    missing = view.mapping(record, "perf.device").get("missing")
    if isinstance(missing, Mapping):
        unseen += [(f"telemetry: {field}", str(reason)) for field, reason in missing.items()]
    unseen += [(name, reason) for name, reason in view.unknowns(record)]
    damaged = [("report", remark) for remark in report.remarks]
    for one in sorted(report.records, key=view.rank):
        damaged += [(f"rank {view.rank(one)}", remark) for remark in one.remarks]
        if not one.complete:
            damaged.append((f"rank {view.rank(one)}", "the record has no end: the run was cut off"))
    groups = (
        ("unproven", _by_reason(unproven)),
        ("failed inside Reefwatch", failed),
        ("not seen", _by_reason(unseen)),
        ("not claimed by this run", _by_reason(sorted(report.unclaimed.items()))),
        ("remarks", damaged),
    )
    return [
        (
            title,
            [
                (words.line(a, limits.text), words.line(b, limits.text))
                for a, b in rows[: limits.rows]
            ]
            + ([(f"and {len(rows) - limits.rows} more", "")] if len(rows) > limits.rows else []),
        )
        for title, rows in groups
        if rows
    ]


def _by_reason(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What shares a reason is told in one row."""
    names: dict[str, list[str]] = {}
    for name, reason in rows:
        names.setdefault(reason, []).append(name)
    return [(", ".join(dict.fromkeys(some)), reason) for reason, some in names.items()]
