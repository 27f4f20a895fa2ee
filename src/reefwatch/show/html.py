"""The report as one HTML file that opens offline, or as a fragment for a notebook."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from reefwatch.core.fact import Unknown
from reefwatch.core.finding import Finding, Outcome, Verdict
from reefwatch.core.record import Case, Record
from reefwatch.core.report import Report
from reefwatch.show import charts, tree, view, words

if TYPE_CHECKING:
    from jinja2 import Environment

LARGEST = 2_000_000
"""Bytes of the file. A report that would be larger is told with less of everything."""


@dataclass(frozen=True)
class Limits:
    """How much of each list is shown; the rest is counted."""

    findings: int
    evidence: int
    rows: int
    nodes: int
    points: int
    text: int
    page: int


_LIMITS = (
    Limits(findings=40, evidence=12, rows=60, nodes=500, points=480, text=1500, page=8000),
    Limits(findings=12, evidence=8, rows=40, nodes=200, points=240, text=500, page=2000),
    Limits(findings=3, evidence=4, rows=20, nodes=60, points=120, text=160, page=0),
    Limits(findings=1, evidence=2, rows=8, nodes=20, points=60, text=60, page=0),
)


def render(report: Report, pages: Mapping[str, str] | None = None, *, fragment: bool = False) -> str:
    """One HTML document of at most 2 MB without any reference to the outside.

    `pages` are the help pages by code. With `fragment` only the body, with its own style and
    without a script, to be put into another page.
    """
    made = ""
    for limits in _LIMITS:
        template = _environment().get_template("fragment.html.j2" if fragment else "report.html.j2")
        made = template.render(**_context(report, pages or {}, limits))
        if len(made.encode("utf-8", "replace")) <= LARGEST:
            break
    return made


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("reefwatch.show", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    folder = files("reefwatch.show") / "templates"
    script = (folder / "report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.globals |= {
        "style": Markup((folder / "report.css").read_text("utf-8")),
        "script": Markup(script),
        "script_hash": f"sha256-{digest}",
        "markup": Markup,
    }
    environment.filters |= {
        "seconds": words.seconds,
        "amount": words.amount,
        "size": words.size,
        "share": words.share,
        "flops": words.flops,
    }
    return environment


def _context(report: Report, pages: Mapping[str, str], limits: Limits) -> dict[str, Any]:
    record, folder = view.first(report), view.cwd(report)
    told = _Teller(folder, limits, pages)
    outcomes = [o for section in view.sections(report) for o in section.outcomes]
    return {
        "report": report,
        "run": view.run(report),
        "rank": view.rank(record),
        "counts": _counts(report),
        "sections": [told.section(section) for section in view.sections(report)],
        "broken": [told.outcome(o) for o in outcomes if o.verdict is Verdict.BROKEN],
        "charts": charts.charts(record, limits.points),
        "flow": _flow(record, limits, folder),
        "memory": _memory(record, limits),
        "ranks": _ranks(report, limits) if len(report.records) > 1 else [],
        "environment": _environment_rows(record, limits),
        "unseen": _unseen(report, limits),
    }


def _counts(report: Report) -> list[dict[str, Any]]:
    """The verdicts with their number and share, warnings apart from errors."""
    count = Counter(view.mark(outcome) for outcome in report.outcomes)
    order = ("held", "broken", "warning", "unproven", "errored")
    whole = max(1, len(report.outcomes))
    return [{"word": w, "count": count[w], "percent": f"{100 * count[w] / whole:.2f}"} for w in order]


@dataclass(frozen=True)
class _Teller:
    """Turns outcomes and findings into what the template shows."""

    folder: str
    limits: Limits
    pages: Mapping[str, str]

    def text(self, text: Any) -> str:
        return words.line(text, self.limits.text)

    def section(self, section: view.Section) -> dict[str, Any]:
        return {
            "contract": self.text(section.contract),
            "tally": section.tally(),
            "mark": view.mark(section.outcomes[0]),
            "outcomes": [self.outcome(outcome) for outcome in section.outcomes],
        }

    def outcome(self, outcome: Outcome) -> dict[str, Any]:
        most = self.limits.findings
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
                for finding, reason in outcome.silenced[:most]
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


def _flow(record: Record, limits: Limits, folder: str) -> dict[str, Any] | None:
    """Where flops and bytes went, or None when no operation was recorded."""
    rows = tree.ops(record)
    if not rows:
        return None
    root = tree.build(rows, limits.nodes)
    flops, size = float(root.flops.total()), float(root.bytes.total())
    heaviest, more = tree.heaviest(rows, limits.rows)
    return {
        "tree": _node(root, flops, size, limits.nodes),
        "flops": tree.parts(root.flops, flops, words.flops),
        "bytes": tree.parts(root.bytes, size, words.size),
        "dtypes": [d for d in tree.DTYPES if root.flops.get(d) or root.bytes.get(d)],
        "steps": words.finite(view.mapping(record, "precision.ops").get("steps")),
        "ops": [_op(event.data, flops, size, folder, limits) for event in heaviest],
        "more": more,
        "total": len(rows),
    }


def _node(node: tree.Node, flops: float, size: float, most: int) -> dict[str, Any]:
    own_flops, own_size = float(node.flops.total()), float(node.bytes.total())
    return {
        "name": node.name,
        "path": node.path,
        "flops": tree.parts(node.flops, flops, words.flops),
        "bytes": tree.parts(node.bytes, size, words.size),
        "flops_share": own_flops / flops if flops else 0.0,
        "bytes_share": own_size / size if size else 0.0,
        "flops_text": words.flops(own_flops),
        "bytes_text": words.size(own_size),
        "children": [_node(child, flops, size, most) for child in node.children.values()],
        "left_out": node.left_out,
    }


def _op(row: Mapping[str, Any], flops: float, size: float, folder: str, limits: Limits) -> dict[str, Any]:
    def names(key: str) -> str:
        value = row.get(key)
        return words.line(" ".join(map(str, value)) if isinstance(value, (list, tuple)) else "?", 80)

    def text(key: str, most: int = 160) -> str:
        return words.line("" if row.get(key) is None else row[key], min(most, limits.text))

    file = words.short_path(str(row.get("file") or ""), folder)
    line = words.finite(row.get("line"))
    mine = words.finite(row.get("flops")) or 0.0, words.finite(row.get("bytes")) or 0.0
    return {
        "op": text("op"),
        "in": names("in"),
        "out": names("out"),
        "dtype": tree.first_dtype(row, "in"),
        "module": text("module"),
        "place": words.line(f"{file}:{line:.0f}" if file and line else file, min(160, limits.text)),
        "phase": text("phase", 20),
        "cause": text("cause", 60),
        "calls": words.amount(words.finite(row.get("calls")) or 0),
        "flops": words.share(mine[0] / flops) if flops and mine[0] else "",
        "bytes": words.share(mine[1] / size) if size and mine[1] else "",
    }


def _memory(record: Record, limits: Limits) -> dict[str, Any] | None:
    """Bars of bytes by dtype: saved for backward, parameters, gradients, optimizer state."""
    state = view.mapping(record, "precision.state")
    named = {"saved for backward": view.mapping(record, "precision.saved")}
    named |= {words.line(name, 40): state[name] for name in state}
    bars = {name: tree.by_dtype(value) for name, value in list(named.items())[: limits.rows]}
    bars = {name: counts for name, counts in bars.items() if counts.total()}
    saved = _saved_by(record, limits)
    if not bars and not saved:
        return None
    whole = float(max([counts.total() for counts in bars.values()], default=1))
    return {
        "bars": [
            {
                "name": name,
                "total": words.size(float(counts.total())),
                "parts": tree.parts(counts, whole, words.size),
            }
            for name, counts in bars.items()
        ],
        "dtypes": [d for d in tree.DTYPES if any(counts.get(d) for counts in bars.values())],
        "saved_by": saved,
        "device": _device_memory(record, limits),
    }


def _saved_by(record: Record, limits: Limits) -> list[dict[str, Any]]:
    rows = [
        (words.finite(event.data.get("bytes")) or 0.0, event.data)
        for event in Case(record).rows("precision.saved_by")
    ]
    rows.sort(key=lambda row: -row[0])
    return [
        {
            "module": words.line(row.get("module") or tree.NO_MODULE, limits.text),
            "dtype": tree.dtype_name(row.get("dtype")),
            "bytes": words.size(count),
        }
        for count, row in rows[: min(12, limits.rows)]
        if count
    ]


def _device_memory(record: Record, limits: Limits) -> list[tuple[str, str]]:
    memory = view.mapping(record, "perf.memory")
    rows = []
    for key in ("allocated", "reserved", "peak"):
        count = words.finite(memory.get(key))
        if count is not None:
            rows.append((key, words.size(count)))
    if memory.get("owner"):
        rows.append(("peak reached in", words.line(memory["owner"], limits.text)))
    return rows


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


_ENVIRONMENT = ("env.device", "env.torch", "precision.flags", "perf.device", "perf.link", "perf.cards")
_WATCHING = ("watch.exam", "watch.budget", "watch.cost", "watch.compile", "watch.children")
_HEADER = ("python", "reefwatch", "started", "host", "cwd", "argv", "options", "run_id", "world")


def _environment_rows(record: Record, limits: Limits) -> list[tuple[str, list[tuple[str, str]]]]:
    """Named groups of (name, value)."""
    head = [
        (key, words.quantity(record.header[key], "", limits.text))
        for key in _HEADER
        if record.header.get(key) not in (None, "", {}, [])
    ]
    groups = [("run", head)]
    for title, names in (("machine and software", _ENVIRONMENT), ("watching", _WATCHING)):
        rows = [(name, _fact(record, name, limits)) for name in names if name in record.facts]
        groups.append((title, rows))
    return [(title, rows) for title, rows in groups if rows]


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
    for name in sorted(record.facts):
        if name.startswith("errored."):
            failed.append((name.removeprefix("errored."), _fact(record, name, limits)))
    ops = view.mapping(record, "precision.ops").get("unseen")
    unseen = [("operations", str(reason)) for reason in ops] if isinstance(ops, (list, tuple)) else []
    unseen += [(name, reason) for name, reason in view.unknowns(record)]
    damaged = [("report", remark) for remark in report.remarks]
    for one in sorted(report.records, key=view.rank):
        damaged += [(f"rank {view.rank(one)}", remark) for remark in one.remarks]
        if not one.complete:
            damaged.append((f"rank {view.rank(one)}", "the record has no end: the run was cut off"))
    unclaimed = [(" ".join(codes), why) for why, codes in view.grouped(report.unclaimed).items()]
    groups = (
        ("unproven", unproven),
        ("failed inside Reefwatch", failed),
        ("not seen", unseen),
        ("not claimed by this run", unclaimed),
        ("remarks", damaged),
    )
    return [
        (
            title,
            [(words.line(a, limits.text), words.line(b, limits.text)) for a, b in rows[: limits.rows]]
            + ([(f"and {len(rows) - limits.rows} more", "")] if len(rows) > limits.rows else []),
        )
        for title, rows in groups
        if rows
    ]
