"""The end screen: what held, what is broken, what is unproven, on one screen."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from reefwatch.core.finding import Finding, Outcome, Severity, Verdict
from reefwatch.core.report import Report
from reefwatch.show import view, words

if TYPE_CHECKING:
    from rich.text import Text

HEIGHT = 40
"""Lines of one screen. Beyond it detail goes first, then rows; what was left out is said."""
_REASONS = 160
"""Characters of what was not claimed, and why; the page and the JSON have all of it."""
_MARKS = {"broken": "✗", "warning": "!", "errored": "#", "unproven": "?", "held": "✓"}
_PLAIN_MARKS = {"broken": "x", "warning": "!", "errored": "#", "unproven": "?", "held": "+"}
_STYLES = {
    "broken": "bold red",
    "warning": "yellow",
    "errored": "magenta",
    "unproven": "cyan",
    "held": "green",
}


@dataclass(frozen=True)
class _Line:
    """One paragraph of the screen; `indent` is that of its first line."""

    text: str
    style: str = ""
    indent: int = 0
    mark: str = ""
    right: str = ""
    one_line: bool = False
    whole: bool = False
    """A path to copy: never broken by us."""


@dataclass(frozen=True)
class _Detail:
    """How much is told of each outcome that did not hold."""

    findings: int
    fix: bool
    notes: bool
    rows: int
    one_line: bool = False


_DETAILS = (
    _Detail(findings=3, fix=True, notes=True, rows=100),
    _Detail(findings=1, fix=True, notes=True, rows=100),
    _Detail(findings=1, fix=True, notes=False, rows=6),
    _Detail(findings=1, fix=True, notes=False, rows=4, one_line=True),
    _Detail(findings=1, fix=False, notes=False, rows=4, one_line=True),
    _Detail(findings=0, fix=False, notes=False, rows=2, one_line=True),
)


def render(report: Report, *, color: bool, width: int, ascii: bool = False) -> str:
    """The end screen, at most about 40 lines of `width` cells; its last is `report.last_line()`.

    With `ascii` everything outside ASCII is written as an escape.
    """
    width = max(40, min(width, 200))
    drawn: list[str] = []
    for detail in _DETAILS:
        lines = list(_head(report)) + list(_body(report, detail)) + list(_foot(report, detail))
        drawn = _draw(lines, color=color, width=width, ascii=ascii)
        if len(drawn) < HEIGHT:
            break
    return "\n".join([*drawn, report.last_line()]) + "\n"


def _head(report: Report) -> Iterator[_Line]:
    run = view.run(report)
    claim = f"{run.claim} ({run.claimed_by})" if run.claimed_by else run.claim
    yield _Line(f"reefwatch {run.command} {run.script}".strip(), style="bold", right=claim)
    if not report.records:
        yield _Line("no record was read")
        return
    if report.command == "trace":
        yield _Line("")
        return
    if not any(name.startswith("run.") for record in report.records for name in record.facts):
        return  # nothing ran: a machine or a file was looked at
    if run.steps is None:
        ran = f"no step was seen ({run.no_steps})" if run.no_steps else "no step was seen"
        if run.examined:  # some were seen, and their number is not known
            ran = "steps not counted"
    else:
        ran = words.several(run.steps, "step")
    if run.seconds is not None:
        ran += f"{' in' if run.steps is not None else ','} {words.seconds(run.seconds)}"
    seen = "" if run.examined is None else f"{run.examined:,} examined"
    ranks = "" if run.ranks == 1 else f"{run.records} of {run.ranks} ranks"
    parts = [ran, seen, ranks, run.device, run.torch, run.exit]
    yield _Line(" · ".join(part for part in parts if part), style="dim")
    yield _Line("")


def _body(report: Report, detail: _Detail) -> Iterator[_Line]:
    folder = view.cwd(report)
    parts = view.sections(report)
    if not parts:
        yield _Line("nothing was judged: no check applies to what was recorded")
        yield _Line("")
    for section in parts:
        word = view.mark(section.outcomes[0])
        yield _Line(
            f"{words.line(section.contract, 30):<10} {section.tally()}",
            style="bold",
            mark=word,
            right=words.clip(view.least_first(section.coverage(), 3), 90),
        )
        yield from _rows(section, folder, detail)
        yield from _held(section, folder, detail)
    if parts:
        yield _Line("")


def _rows(section: view.Section, folder: str, detail: _Detail) -> Iterator[_Line]:
    told = [o for o in section.outcomes if o.verdict in (Verdict.BROKEN, Verdict.ERRORED)]
    rows = [list(_row(outcome, folder, detail)) for outcome in told]
    by_reason: dict[str, list[Outcome]] = {}
    for outcome in section.of(Verdict.UNPROVEN):
        by_reason.setdefault(outcome.reason, []).append(outcome)
    for reason, outcomes in by_reason.items():
        rows.append(list(_row(outcomes[0], folder, detail)))
        if len(outcomes) > 1:
            codes = view.codes(outcome.code for outcome in outcomes)
            cut = words.clip_end(words.line(reason), 300)
            said = _Line(cut, indent=6, one_line=detail.one_line)
            rows[-1] = [_Line(codes, mark="unproven", indent=2, one_line=True), said]
    for row in rows[: detail.rows]:
        yield from row
    if len(rows) > detail.rows:
        yield _Line(f"and {len(rows) - detail.rows} more that did not hold", indent=4)


def _row(outcome: Outcome, folder: str, detail: _Detail) -> Iterator[_Line]:
    word = view.mark(outcome)
    title = f"{outcome.code}  {words.line(outcome.title, 200)}"
    yield _Line(title, mark=word, indent=2, one_line=detail.one_line)
    if outcome.verdict is not Verdict.BROKEN:
        if detail.findings:
            reason = words.clip_end(words.line(outcome.reason), 300)
            yield _Line(reason, indent=6, one_line=detail.one_line)
        return
    for finding in outcome.findings[: detail.findings]:
        yield from _finding(finding, folder, detail)
    rest = len(outcome.findings) - detail.findings
    if rest > 0 and detail.findings:
        yield _Line(f"and {words.several(rest, 'more finding')}", style="dim", indent=6)


def _finding(finding: Finding, folder: str, detail: _Detail) -> Iterator[_Line]:
    where = view.place(finding.place, folder, 160)
    message = words.line(finding.message, 300)
    yield _Line(message, indent=6, one_line=detail.one_line)
    if where:
        yield _Line(f"at {where}", style="dim", indent=6, one_line=True)
    if finding.fix and detail.fix:
        yield _Line(f"fix: {words.line(finding.fix, 300)}", indent=6, one_line=detail.one_line)


def _held(section: view.Section, folder: str, detail: _Detail) -> Iterator[_Line]:
    held = section.of(Verdict.HELD)
    noted = [(o, f) for o in section.outcomes for f in o.findings if o.severity is Severity.NOTE]
    if detail.notes:
        told: dict[str, list[str]] = {}
        for outcome, finding in noted:
            text = f"note  {outcome.code}  {words.line(finding.message, 200)}"
            told.setdefault(text, []).append(view.place(finding.place, folder, 100))
        for text, places in list(told.items())[:3]:
            where = f" ({places[0]})" if places[0] else ""
            count = f" in {len(places):,} places" if len(places) > 1 else ""
            yield _Line(text + count + where, indent=4, one_line=True)
        rest = sum(len(places) for places in list(told.values())[3:])
        if rest:
            yield _Line(f"and {words.several(rest, 'more note')}", style="dim", indent=4)
    if held and len(held) < len(section.outcomes):
        yield _Line(
            "held  " + view.codes(o.code for o in held), style="green", indent=4, one_line=True
        )
    elif held:
        yield _Line(view.codes(o.code for o in held), style="green", indent=4, one_line=True)


def _foot(report: Report, detail: _Detail) -> Iterator[_Line]:
    silenced = [(o.code, reason) for o in report.outcomes for _, reason in o.silenced]
    if silenced:
        reasons = "; ".join(
            f"{words.clip_end(words.line(reason), 80)}: {view.codes(codes)}"
            for reason, codes in _by_reason(silenced).items()
        )
        yield _Line(f"silenced  {len(silenced)}  ({reasons})", one_line=True)
    if report.unclaimed:
        yield _Line(f"not claimed  {_unclaimed(report)}", style="dim", one_line=not detail.notes)
    most = 6 if detail.notes else 2
    for remark in report.remarks[:most]:
        yield _Line(f"remark  {words.line(remark, 300)}", style="yellow", one_line=detail.one_line)
    if len(report.remarks) > most:
        yield _Line(f"and {len(report.remarks) - most} more remarks", style="dim")
    for key, word in (("html", "report"), ("folder", "record")):
        if report.facts.get(key):
            yield _Line(f"{word}  {words.line(report.facts[key], 4000)}", whole=True)


def _unclaimed(report: Report) -> str:
    """What was not claimed and why: the reasons of most checks first, as many as two lines hold."""
    groups = sorted(view.grouped(report.unclaimed).items(), key=lambda one: -len(one[1]))
    said = [f"{view.codes(codes)}: {words.clip_end(words.line(why), 80)}" for why, codes in groups]
    told = max(1, sum(1 for end in accumulate(len(one) + 2 for one in said) if end <= _REASONS))
    rest = len(said) - told
    more = [f"and {words.several(rest, 'more reason')}"] if rest else []
    return "; ".join(said[:told] + more)


def _by_reason(silenced: list[tuple[str, str]]) -> dict[str, list[str]]:
    by_reason: dict[str, list[str]] = {}
    for code, reason in silenced:
        by_reason.setdefault(reason, []).append(code)
    return by_reason


def _draw(lines: list[_Line], *, color: bool, width: int, ascii: bool) -> list[str]:
    """The lines as they stand on the terminal. rich measures wide characters and wraps."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    for text in _laid_out(lines, width, ascii):
        console.print(text, soft_wrap=True, end="\n")
    return [drawn.rstrip() for drawn in out.getvalue().split("\n")[:-1]]


def _laid_out(lines: list[_Line], width: int, ascii: bool) -> Iterator[Text]:
    from rich.text import Text

    marks = _PLAIN_MARKS if ascii else _MARKS
    tidy = words.plain if ascii else str
    for line in lines:
        head = Text(" " * line.indent)
        if line.mark:
            head.append(marks[line.mark] + " ", style=_STYLES[line.mark])
        body = Text(tidy(line.text), style=line.style)
        room = width - head.cell_len
        if line.one_line:
            _cut(body, room, "..." if ascii else "…")
        right = Text(tidy(line.right), style="dim")
        gap = room - body.cell_len - right.cell_len
        if line.right and gap >= 2:
            yield Text.assemble(head, body, " " * gap, right)
            continue
        yield from [Text.assemble(head, body)] if line.whole else _wrapped(head, body, width)
        if line.right:
            yield from _wrapped(Text(" " * (line.indent + 4)), right, width)


def _cut(body: Text, room: int, end: str) -> None:
    if body.cell_len > room:
        body.truncate(max(0, room - len(end)), overflow="crop")
        body.rstrip()
        word = body.plain.rfind(" ")
        if word > len(body.plain) * 2 // 3:  # not within a word, unless it is a long path
            body.right_crop(len(body.plain) - word)
        body.append(end)


def _wrapped(head: Text, body: Text, width: int) -> Iterator[Text]:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), width=width, _environ={})
    pieces = body.wrap(console, max(10, width - head.cell_len), overflow="fold") or [Text("")]
    margin = head
    for piece in pieces:
        piece.rstrip()
        yield Text.assemble(margin, piece)
        margin = Text(" " * head.cell_len)
