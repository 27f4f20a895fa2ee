"""The report on a machine as text: what is there, what is wrong, what to do.

Unlike the end screen of a run it is as long as it is: who asks a doctor wants to read it. Written
without rich, which takes as long to load as the whole look at the machine.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Outcome, Severity, Verdict
from reefwatch.core.record import Record
from reefwatch.core.report import Report
from reefwatch.show import view, words

_MARKS = {"broken": "✗", "warning": "!", "errored": "#", "unproven": "?", "held": "✓", "note": "·"}
_PLAIN = {"broken": "x", "warning": "!", "errored": "#", "unproven": "?", "held": "+", "note": "-"}
_COLORS = {"broken": "1;31", "warning": "33", "errored": "35", "unproven": "36", "held": "32"}
_GIB = 1 << 30
PLACES = 20
"""Findings of one check that are told; a code base can have hundreds of places."""
FILES = 80
"""Scanned files whose targets are told; an environment can have hundreds."""


class _Page:
    """Lines of a width, with or without colour and marks outside ASCII."""

    def __init__(self, color: bool, width: int, ascii: bool) -> None:
        self.color, self.width, self.ascii = color, max(60, min(width, 120)), ascii
        self.lines: list[str] = []

    def put(self, text: str, indent: int = 0, hang: int = 0, style: str = "") -> None:
        """One paragraph; its later lines stand `hang` further to the right."""
        text = words.plain(text) if self.ascii else text
        wrapped = textwrap.wrap(
            text,
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hang),
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
        self.lines += [self._styled(line, style) for line in wrapped]

    def mark(self, word: str, text: str) -> None:
        mark = (_PLAIN if self.ascii else _MARKS)[word]
        self.put(f"{mark} {text}", hang=2, style=_COLORS.get(word, ""))

    def _styled(self, line: str, style: str) -> str:
        return f"\x1b[{style}m{line}\x1b[0m" if self.color and style else line


def render(report: Report, *, color: bool, width: int, ascii: bool = False) -> str:
    """The whole report; its last line is `report.last_line()`."""
    page = _Page(color, width, ascii)
    record = view.first(report)
    where = words.line(record.header.get("root") or "", 200)
    command = words.line(record.header.get("command") or report.command, 40)
    scanned = words.line(str(report.facts.get("scanned", "")), 200)
    asked = f" --root {where}" if where else f" --scan {scanned}" if scanned else ""
    page.put(f"reefwatch {command}{asked}", style="1")
    for name, text in _machine(record):
        page.put(f"{name:<9} {words.line(text, 600)}", hang=10)
    page.put("")
    _outcomes(page, report)
    for remark in report.remarks:
        page.put(f"remark    {words.line(remark, 400)}", hang=10, style="33")
    page.put(report.last_line())
    return "\n".join(page.lines) + "\n"


def uses(told: Mapping[str, Any], *, color: bool, width: int, ascii: bool = False) -> str:
    """What cards are good for, in plain words, each with its source."""
    page = _Page(color, width, ascii)
    for gfx, rows in told["uses"].items():
        names = dict.fromkeys(card["name"] for card in told["cards"] if card["gfx"] == gfx)
        page.put(f"{gfx}: {', '.join(names)}", hang=2, style="1")
        about = told["targets"][gfx]
        matrix = ", ".join(about["matrix"]) or "none"
        page.put(f"{about['family']}; wave size {about['wavefront']}; matrix types: {matrix}",
                 indent=2, hang=2)  # fmt: skip
        page.put(f"official on the legacy releases: {about['official']}", indent=2, hang=2)
        for row in rows:
            page.put(row["use"], indent=2, style="1")
            for name in ("works", "expect", "avoid"):
                if row[name]:
                    page.put(f"{name:<7} {row[name]}", indent=4, hang=8)
            page.put(f"source  {row['source']}" + _graded(row), indent=4, hang=8, style="2")
        page.put("")
    page.put(f"by tables of {told['asof']}; nothing of it was measured here")
    return "\n".join(page.lines) + "\n"


def _graded(row: Mapping[str, Any]) -> str:
    return "" if row["grade"] == "measured" else f" ({row['grade']})"


def _machine(record: Record) -> Iterator[tuple[str, str]]:
    """The lines of the inventory; what is not known is left out here and stands in the JSON."""
    value = _values(record)
    system = value("os", {})
    parts = [system.get("name", ""), f"Linux {value('kernel')}" if value("kernel") else ""]
    parts += [value("container", "") and f"in {value('container')}", value("wsl") and "WSL2"]
    yield from _line("system", parts)
    driver = value("driver", {})
    if driver.get("loaded"):
        yield "driver", f"amdgpu, {driver['kind']} {driver.get('version', '')}".rstrip()
    gpus = value("gpus", ())
    for gpu in gpus:
        number = gpu["index"] if gpu["index"] is not None else "-"
        yield f"gpu {number}", _gpu(gpu)
    if len(gpus) > value("cards", len(gpus)):
        yield "cards", f"{value('cards')}: several devices are partitions of one card"
    yield from _others(value("other_gpus", ()), value("nvidia", {}))
    if value("kind") == "cpu":
        yield "gpu", "none"
    cpu, memory = value("cpu", {}), value("memory", {})
    ram = f"{memory['total'] / _GIB:.0f} GiB" if memory.get("total") else ""
    yield from _line("cpu", [cpu.get("model", ""), cpu and f"{cpu['count']} threads", ram])
    yield from _python(value)
    if view.mapping(record, "port.scanned"):
        about = view.mapping(record, "port.scanned")
        guarded = about.get("guarded", 0)
        more = f"; {guarded} places are guarded, and not told" if guarded else ""
        yield "code", f"{about['files']} files, {about['lines']} lines read{more}"
    yield from _codes(record)
    tables = value("tables", {})
    if tables:
        own = f", with {tables['overlay']} laid over" if tables["overlay"] else ""
        yield "tables", f"of {tables['asof']}{own}"


def _codes(record: Record) -> Iterator[tuple[str, str]]:
    """The targets that each scanned binary carries, and those of kernel databases."""
    rows = [event for event in record.events if event.kind == "codes.file"]
    for event in rows[:FILES]:
        found = sorted(event.data["targets"], key=lambda one: (len(one.partition(":")[0]), one))
        said = ", ".join(found) or "no target"
        unknown = "; ".join(event.data.get("unknown", ()))
        yield "code", f"{event.data['path']}: {said}" + (f" ({unknown})" if unknown else "")
    if len(rows) > FILES:
        yield "code", f"{len(rows) - FILES} more files with code, all of them with --json"
    for event in record.events:
        if event.kind == "codes.database":
            row = event.data
            yield "kernels", f"{row['folder']} ({row['library']}): {', '.join(row['targets'])}"


def _others(
    rows: Sequence[Mapping[str, Any]], nvidia: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Cards that are not AMD's: NVIDIA's, and what else drives a screen."""
    version = nvidia.get("driver", "")
    for row in rows:
        driver = row["driver"] if isinstance(row["driver"], str) else row["driver"]["unknown"]
        driver = f"driver {driver} {version if driver == 'nvidia' else ''}".rstrip()
        driver = driver.removeprefix("driver ") if not isinstance(row["driver"], str) else driver
        vendor = row["vendor"] if row["vendor"].isalpha() else f"PCI {row['vendor']}"
        name = row["name"] or f"{vendor} {row['device']}".rstrip()
        yield (
            "gpu" if row["vendor"] == "NVIDIA" else "display",
            f"{name}, {driver}, at {row['slot']}",
        )
    if not any(row["vendor"] == "NVIDIA" for row in rows):
        for name in nvidia.get("cards", ()):  # a container may show no PCI bus
            yield "gpu", f"{name}, driver nvidia {version}".rstrip()


def _values(record: Record) -> Any:
    def value(name: str, default: Any = None) -> Any:
        fact = record.fact(f"machine.{name}")
        return fact.value if isinstance(fact, Evidence) else default

    return value


def _line(name: str, parts: Sequence[Any]) -> Iterator[tuple[str, str]]:
    text = ", ".join(str(part) for part in parts if part)
    if text:
        yield name, text


def _python(value: Any) -> Iterator[tuple[str, str]]:
    python, torch = value("python", {}), value("torch", {})
    if python:
        found = f"torch {torch['version']} ({torch['kind']})" if torch else "torch is not installed"
        others = [
            f"{name} {version}"
            for name, version in value("packages", {}).items()
            if name not in ("torch", "numpy") and not name.startswith("rocm-sdk")
        ]
        yield from _line("python", [python.get("version", ""), found, *others[:8]])
    for copy in value("rocm", ()):
        yield "rocm", f"{copy['version'] or '(no version)'} in {copy['root']} ({copy['where']})"


def _gpu(gpu: Mapping[str, Any]) -> str:
    """`AMD Radeon RX 7900 XTX, gfx1100, 24.0 GiB, 96 CU at 0000:03:00.0`."""
    name = gpu["name"]
    if isinstance(name, Mapping):
        candidates = name.get("candidates", ())
        likely = name.get("likely")
        some = "perhaps" if len(candidates) == 1 else "one of"
        device = gpu["device"] if isinstance(gpu["device"], str) else "GPU"
        name = f"{some} {', '.join(candidates)}" if candidates else f"AMD {device}"
        name += f" (by its {gpu['compute_units']} units the first named {likely})" if likely else ""
    parts = [name]
    for field, form in (("gfx", "{}"), ("compute_units", "{} CU"), ("slot", "at {}")):
        if not isinstance(gpu[field], Mapping):
            parts.append(form.format(gpu[field]))
    memory = gpu["vram"] if not isinstance(gpu["vram"], Mapping) else 0
    if memory:
        own = f"{memory / _GIB:.1f} GiB"
        maps = gpu["gtt"] if not isinstance(gpu["gtt"], Mapping) else 0
        if gpu["integrated"] is True:  # what its programs get is the machine's memory
            own += " set apart" + (f", up to {maps / _GIB:.1f} GiB of the RAM" if maps else "")
        parts.insert(2, own)
    if gpu["integrated"] is True:
        parts.append("in the processor")
    if gpu["partition"]:
        mode = gpu["partition"].get("mode", "")
        parts.append(f"partition {gpu['partition']['number']}" + (f" ({mode})" if mode else ""))
    if gpu["node"] is None:
        parts.append("no KFD node seen")
    if isinstance(gpu["driver"], str) and gpu["driver"] != "amdgpu":
        parts.append(f"driver {gpu['driver']}")
    return ", ".join(parts)


def _outcomes(page: _Page, report: Report) -> None:
    told = sorted(report.outcomes, key=lambda o: (view.WORST_FIRST.index(o.verdict), -o.severity))
    for outcome in told:
        if outcome.verdict is Verdict.BROKEN:
            page.mark(view.mark(outcome), f"{outcome.code}  {words.line(outcome.title, 200)}")
            _findings(page, outcome.findings, view.cwd(report))
    for outcome in told:
        if outcome.verdict is Verdict.ERRORED:
            page.mark("errored", f"{outcome.code}  {words.line(outcome.reason, 300)}")
    _notes(page, told)
    _grouped(page, "unproven", {o.code: o.reason for o in told if o.verdict is Verdict.UNPROVEN})
    held = [outcome.code for outcome in told if outcome.verdict is Verdict.HELD]
    if held:
        page.mark("held", view.codes(held))
    for outcome in told:
        for finding, reason in outcome.silenced:
            page.put(f"silenced  {outcome.code} {words.line(finding.message, 120)}: "
                     f"{words.line(reason, 120)}", hang=10)  # fmt: skip
    for reason, codes in view.grouped(report.unclaimed).items():
        page.put(f"not claimed  {view.codes(codes)}: {words.line(reason, 160)}", hang=13, style="2")


def _findings(page: _Page, findings: Sequence[Finding], cwd: str) -> None:
    """Each finding; what neighbours have in common (why, fix) is said once, below the last."""
    for number, finding in enumerate(findings[:PLACES]):
        after = findings[number + 1] if number + 1 < min(len(findings), PLACES) else None
        shared = after is not None and (after.why, after.fix) == (finding.why, finding.fix)
        _finding(page, finding, cwd, brief=shared)
    if len(findings) > PLACES:
        page.put(f"and {len(findings) - PLACES} more, all of them with --json", indent=4)


def _finding(page: _Page, finding: Finding, cwd: str, brief: bool) -> None:
    place = view.place(finding.place, cwd, 200)
    weak = [e.grade.value for e in finding.evidence if e.grade.weakness]
    rows = (
        ("seen", finding.message + (f" (by a table, {weak[0]})" if weak else "")),
        ("where", place),
        ("wanted", finding.claimed),
        ("why", "" if brief else "; ".join(part for part in (finding.why, finding.cost) if part)),
        ("fix", "" if brief else finding.fix),
    )
    for name, text in rows:
        if text:
            page.put(f"{name:<6} {words.line(text, 600)}", indent=4, hang=7)


def _notes(page: _Page, told: Sequence[Outcome]) -> None:
    for outcome in told:
        if outcome.verdict is not Verdict.BROKEN and outcome.severity is Severity.NOTE:
            for finding in outcome.findings:
                page.mark("note", f"{outcome.code}  {words.line(finding.message, 400)}")
                if finding.fix:
                    page.put(f"fix    {words.line(finding.fix, 400)}", indent=4, hang=7)


def _grouped(page: _Page, word: str, reasons: Mapping[str, str]) -> None:
    for reason, codes in view.grouped(reasons).items():
        page.mark(word, f"{view.codes(codes)}  {words.line(reason, 300)}")
