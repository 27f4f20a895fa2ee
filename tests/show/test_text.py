"""The end screen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.finding import Coverage, Finding, Outcome, Severity, Verdict
from reefwatch.core.record import Record
from reefwatch.core.report import Report
from reefwatch.show import text
from tests.show import reports

SHAPES = {
    "all held": reports.all_held,
    "cnn": reports.cnn_report,
    "several ranks": reports.several_ranks,
    "unproven": reports.only_unproven,
    "errored": reports.errored,
    "silenced": reports.silenced,
    "empty": reports.empty,
}
_STYLE = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("shape", SHAPES)
def test_screen(shape: str, snapshot: SnapshotAssertion) -> None:
    assert text.render(SHAPES[shape](), color=False, width=100) == snapshot


def test_narrow_ascii_screen(snapshot: SnapshotAssertion) -> None:
    assert text.render(reports.cnn_report(), color=False, width=60, ascii=True) == snapshot


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", [60, 79, 100, 200])
@pytest.mark.parametrize("ascii", [False, True])
def test_fits_the_terminal_and_ends_with_the_counts(shape: str, width: int, ascii: bool) -> None:
    report = replace(SHAPES[shape](), facts={})
    shown = text.render(report, color=False, width=width, ascii=ascii)
    lines = shown.splitlines()
    assert lines[-1] == report.last_line()
    assert max(cell_len(line) for line in lines) <= width
    assert len(lines) <= text.HEIGHT
    if ascii:
        assert shown.isascii()


@pytest.mark.parametrize("shape", SHAPES)
def test_colour_adds_style_only(shape: str) -> None:
    report = SHAPES[shape]()
    plain = text.render(report, color=False, width=90)
    coloured = text.render(report, color=True, width=90)
    assert "\x1b" not in plain
    bare = [line.rstrip() for line in _STYLE.sub("", coloured).splitlines()]
    assert bare == plain.splitlines()
    assert coloured.splitlines()[-1] == report.last_line()
    if report.records:
        assert "\x1b[" in coloured


def test_a_path_to_copy_is_never_broken() -> None:
    folder = "/tmp/" + "very-long-name/" * 12
    report = reports.with_records(reports.HELD, facts={"folder": folder, "html": folder + "r.html"})
    lines = text.render(report, color=False, width=60).splitlines()
    assert f"report  {folder}r.html" in lines
    assert f"record  {folder}" in lines


def test_no_environment_variable_changes_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = text.render(reports.cnn_report(), color=True, width=90)
    for name, value in {
        "NO_COLOR": "1",
        "COLUMNS": "33",
        "TERM": "dumb",
        "FORCE_COLOR": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert text.render(reports.cnn_report(), color=True, width=90) == before


def many(outcomes: int, findings: int) -> Report:
    rows = tuple(
        replace(reports.UPCAST, place=replace(reports.UPCAST.place, line=n))
        for n in range(findings)
    )
    return reports.with_records(
        tuple(
            Outcome(
                f"PREC{n:03d}",
                f"claim {n}",
                Verdict.BROKEN,
                Severity.ERROR,
                rows,
                contract=contract,
            )
            for contract in ("precision", "loop", "perf")
            for n in range(outcomes)
        ),
        remarks=tuple(f"remark {n}" for n in range(outcomes)),
    )


@pytest.mark.parametrize(("outcomes", "findings"), [(1, 50), (6, 2), (40, 40)])
def test_much_still_fits_one_screen_and_says_what_it_left_out(outcomes: int, findings: int) -> None:
    lines = text.render(many(outcomes, findings), color=False, width=80).splitlines()
    assert len(lines) <= text.HEIGHT
    assert lines[-1] == f"0 held, {3 * outcomes} broken, 0 unproven"
    left_out = [line for line in lines if re.search(r"and [\d,]+ more", line)]
    assert left_out
    assert any("PREC000" in line for line in lines)


def test_every_broken_claim_tells_its_place_and_fix() -> None:
    shown = text.render(reports.several_ranks(), color=False, width=120)
    assert "at head.proj, aten.mm.default, model.py:41, ranks 0-3" in shown
    assert "fix: call optimizer.zero_grad() before loss.backward()" in shown
    assert "4 of 8 ranks" in shown


def test_a_warning_is_marked_apart_from_an_error() -> None:
    lines = text.render(reports.cnn_report(), color=False, width=100).splitlines()
    assert any(line.startswith("  ✗ PREC001") for line in lines)
    assert any(line.startswith("  ! PERF004") for line in lines)


def test_a_held_claim_with_a_note_says_the_note() -> None:
    noted = Outcome(
        "LOOP003", "t", Verdict.HELD, Severity.NOTE, (reports.IDLE,), contract="loop"
    )  # fmt: skip
    shown = text.render(Report("run", (noted,)), color=False, width=100)
    assert "note  LOOP003  the device waits 22 %" in shown
    assert shown.endswith("1 held, 0 broken, 0 unproven\n")


def test_the_least_coverage_of_a_contract_is_told() -> None:
    parts = [reports.held(f"LOOP00{n}", "t", "loop", Coverage("steps", n, 9)) for n in (7, 2, 9)]
    assert "2 of 9 steps" in text.render(Report("run", tuple(parts)), color=False, width=100)


@pytest.mark.parametrize("nasty", reports.NASTY)
@pytest.mark.parametrize("ascii", [False, True])
def test_nothing_in_a_string_reaches_the_terminal_as_a_command(nasty: str, ascii: bool) -> None:
    report = reports.nasty(nasty)
    shown = text.render(report, color=False, width=80, ascii=ascii)
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown) is None
    shown.encode("ascii" if ascii else "utf-8")
    assert shown.splitlines()[-1] == report.last_line()
    assert len(shown.splitlines()) <= text.HEIGHT


def test_a_finding_without_any_part_but_its_message() -> None:
    bare = Finding("something", (reports.UPCAST.evidence[0],))
    outcome = reports.broken("LOOP001", "t", "loop", bare)
    shown = text.render(Report("report", (outcome,), records=(Record(),)), color=False, width=80)
    assert "      something\n" in shown
    assert "at " not in shown.replace("that", "").replace("what", "")


def test_notes_that_are_not_shown_are_counted() -> None:
    noted = Outcome("LOOP003", "t", Verdict.HELD, findings=(reports.IDLE,) * 9, contract="loop")
    shown = text.render(Report("run", (noted,)), color=False, width=100)
    assert shown.count("note  LOOP003") == 1
    assert f"{reports.IDLE.message} in 9 places" in shown
    others = tuple(replace(reports.IDLE, message=f"note {n}") for n in "abcdefghi")
    shown = text.render(Report("run", (replace(noted, findings=others),)), color=False, width=100)
    assert shown.count("note  LOOP003") == 3
    assert "and 6 more notes" in shown


def test_steps_that_were_seen_and_not_counted_are_not_said_to_be_unseen() -> None:
    facts = {
        "run.steps": Unknown("calls of the model were not counted after the exam"),
        "watch.exam": Evidence("watch.exam", {"steps": 21}),
    }
    shown = text.render(Report("run", (), records=(Record(facts=facts),)), color=False, width=100)
    assert "steps not counted · 21 examined" in shown.splitlines()[1]
