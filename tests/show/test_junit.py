"""JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from reefwatch.core.finding import Verdict
from reefwatch.show import junit
from tests.show import reports
from tests.show.test_text import SHAPES

TAGS = {Verdict.BROKEN: "failure", Verdict.ERRORED: "error", Verdict.UNPROVEN: "skipped"}


@pytest.mark.parametrize("shape", SHAPES)
def test_one_case_per_check_with_its_verdict(shape: str) -> None:
    report = SHAPES[shape]()
    root = ET.fromstring(junit.render(report))
    cases = {case.attrib["name"].split()[0]: case for case in root.iter("testcase")}
    assert len(cases) == len(list(root.iter("testcase"))) == len(report.outcomes)
    for outcome in report.outcomes:
        case = cases[outcome.code]
        assert case.attrib["classname"] == outcome.contract
        said = {child.tag for child in case} - {"system-out"}
        assert said == ({TAGS[outcome.verdict]} if outcome.verdict in TAGS else set())
    count = report.count()
    for where in (root, *([root[0]] if len(root) == 1 else [])):
        assert where.attrib["tests"] == str(len(report.outcomes))
        assert where.attrib["failures"] == str(count[Verdict.BROKEN])
        assert where.attrib["errors"] == str(count[Verdict.ERRORED])
        assert where.attrib["skipped"] == str(count[Verdict.UNPROVEN])


def test_the_counts_of_the_suites_add_up() -> None:
    root = ET.fromstring(junit.render(reports.cnn_report()))
    for key in ("tests", "failures", "errors", "skipped"):
        assert sum(int(suite.attrib[key]) for suite in root) == int(root.attrib[key])


def test_a_failure_tells_place_evidence_and_fix() -> None:
    root = ET.fromstring(junit.render(reports.cnn_report()))
    errors, warnings = root.iter("failure")
    assert errors.attrib["type"] == "error"
    assert errors.attrib["message"] == reports.UPCAST.message
    assert warnings.attrib["type"] == "warning"
    assert "at: head.proj, aten.mm.default, model.py:41" in errors.text
    assert (
        "seen: share of flops 13 %; dtype of inputs f32, f32; cause explicit upcast (by name)"
        in errors.text
    )
    assert f"fix: {reports.UPCAST.fix}" in errors.text


def test_unproven_and_errored_tell_their_reason() -> None:
    root = ET.fromstring(junit.render(reports.only_unproven()))
    for skipped in root.iter("skipped"):
        assert skipped.attrib["message"] == "unproven: torch was not imported by the script"
    root = ET.fromstring(junit.render(reports.errored()))
    assert "ZeroDivisionError" in next(root.iter("error")).attrib["message"]


def test_a_silenced_finding_is_told_but_fails_nothing() -> None:
    root = ET.fromstring(junit.render(reports.silenced()))
    assert not list(root.iter("failure"))
    told = "".join(out.text or "" for out in root.iter("system-out"))
    assert "silenced (head.proj is small, agreed until 2027-01-01)" in told


@pytest.mark.parametrize("nasty", reports.NASTY)
def test_any_string_is_legal_xml(nasty: str) -> None:
    text = junit.render(reports.nasty(nasty))
    root = ET.fromstring(text.encode("utf-8"))
    assert len(list(root.iter("testcase"))) == 5
