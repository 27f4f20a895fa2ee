"""SARIF 2.1.0. `check` holds what the standard asks of the parts that are used."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reefwatch.core.finding import Place, Severity, Verdict
from reefwatch.core.report import Report
from reefwatch.show import sarif
from tests.show import reports
from tests.show.test_json import refuse
from tests.show.test_text import SHAPES

_URI = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*")
KEYS = {
    "run": {
        "tool", "invocations", "originalUriBaseIds", "columnKind", "results", "properties",
    },
    "driver": {"name", "version", "rules"},
    "rule": {"id", "shortDescription", "help", "properties"},
    "result": {
        "ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints",
        "suppressions", "properties",
    },
    "location": {"physicalLocation", "logicalLocations"},
    "physical": {"artifactLocation", "region"},
    "artifact": {"uri", "uriBaseId"},
    "notification": {"level", "message", "associatedRule"},
}  # fmt: skip


def only(part: Mapping[str, Any], kind: str) -> None:
    assert set(part) <= KEYS[kind], kind


def check(text: str) -> dict[str, Any]:
    """The run of a SARIF log, its structure checked."""
    log = json.loads(text, parse_constant=refuse)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    only(run, "run")
    driver = run["tool"]["driver"]
    only(driver, "driver")
    rules = driver["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        only(rule, "rule")
        assert rule["shortDescription"]["text"]
        assert "help" not in rule or rule["help"]["text"]
    for result in run["results"]:
        check_result(result, rules, run["originalUriBaseIds"])
    assert len({r["partialFingerprints"]["reefwatch/v1"] for r in run["results"]}) == len(
        run["results"]
    )
    (invocation,) = run["invocations"]
    assert isinstance(invocation["executionSuccessful"], bool)
    for said in invocation["toolExecutionNotifications"]:
        only(said, "notification")
        assert said["level"] in ("none", "note", "warning", "error")
        assert said["message"]["text"]
        if "associatedRule" in said:
            assert rules[said["associatedRule"]["index"]]["id"] == said["associatedRule"]["id"]
    return run


def check_result(result: Mapping[str, Any], rules: Any, bases: Mapping[str, Any]) -> None:
    only(result, "result")
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["level"] in ("note", "warning", "error")
    assert result["message"]["text"]
    for suppression in result["suppressions"]:
        assert suppression["kind"] in ("inSource", "external")
    for location in result["locations"]:
        only(location, "location")
        physical = location.get("physicalLocation")
        if physical is not None:
            only(physical, "physical")
            only(physical["artifactLocation"], "artifact")
            assert _URI.fullmatch(physical["artifactLocation"]["uri"])
            base = physical["artifactLocation"].get("uriBaseId")
            assert base is None or base in bases
            assert physical.get("region", {"startLine": 1})["startLine"] >= 1
        for logical in location.get("logicalLocations", ()):
            assert logical["fullyQualifiedName"]


@pytest.mark.parametrize("shape", SHAPES)
def test_structure(shape: str) -> None:
    report = SHAPES[shape]()
    run = check(sarif.render(report, reports.PAGES))
    assert len(run["results"]) == sum(len(o.findings) + len(o.silenced) for o in report.outcomes)
    told = [
        n["associatedRule"]["id"]
        for n in run["invocations"][0]["toolExecutionNotifications"]
        if "associatedRule" in n
    ]
    assert told == [
        o.code for o in report.outcomes if o.verdict in (Verdict.UNPROVEN, Verdict.ERRORED)
    ]
    errored = any(o.verdict is Verdict.ERRORED for o in report.outcomes)
    assert run["invocations"][0]["executionSuccessful"] is not errored


def test_a_finding_lies_at_its_line_and_module() -> None:
    run = check(sarif.render(reports.cnn_report(), reports.PAGES))
    upcast, idle = run["results"]
    (where,) = upcast["locations"]
    assert where["physicalLocation"] == {
        "artifactLocation": {"uri": "model.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 41},
    }
    assert where["logicalLocations"] == [{"fullyQualifiedName": "head.proj", "kind": "module"}]
    assert (upcast["level"], idle["level"]) == ("error", "warning")
    assert "fix: take the .float() at model.py:41 away" in upcast["message"]["text"]
    # no file was seen: the script stands for it, without a line
    assert idle["locations"] == [
        {"physicalLocation": {"artifactLocation": {"uri": "train.py", "uriBaseId": "SRCROOT"}}}
    ]
    (rule,) = [r for r in run["tool"]["driver"]["rules"] if r["id"] == "PREC001"]
    assert "Fix: look for .float()" in rule["help"]["text"]
    assert rule["properties"]["tags"] == ["precision"]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/user/digits/src/a b.py", {"uri": "src/a%20b.py", "uriBaseId": "SRCROOT"}),
        ("/home/user/digits2/a.py", {"uri": "file:///home/user/digits2/a.py"}),
        (
            "/usr/lib/python3/site-packages/x.py",
            {"uri": "file:///usr/lib/python3/site-packages/x.py"},
        ),
        ("<string>", {"uri": "%3Cstring%3E"}),
        ("/home/user/digits/caf\udce9.py", {"uri": "caf%E9.py", "uriBaseId": "SRCROOT"}),
        ("/home/user/digits/日.py", {"uri": "%E6%97%A5.py", "uriBaseId": "SRCROOT"}),
    ],
)
def test_artifact(file: str, expected: dict[str, str]) -> None:
    assert sarif.artifact(file, "/home/user/digits") == expected
    assert sarif.artifact(file, "/home/user/digits/") == expected


def test_no_result_names_the_folder_of_the_run() -> None:
    assert reports.CWD not in sarif.render(reports.cnn_report())


def test_another_folder_can_be_named() -> None:
    run = check(sarif.render(reports.cnn_report(), cwd="/home/user", version="1.2"))
    artifact = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "digits/model.py", "uriBaseId": "SRCROOT"}
    assert run["tool"]["driver"]["version"] == "1.2"


def test_a_silenced_finding_is_suppressed_with_its_reason() -> None:
    (result,) = check(sarif.render(reports.silenced()))["results"]
    assert result["suppressions"] == [
        {"kind": "external", "justification": "head.proj is small, agreed until 2027-01-01"}
    ]


def fingerprints(*findings: Any) -> list[str]:
    outcome = reports.broken("PREC001", "t", "precision", *findings)
    run = check(sarif.render(Report("run", (outcome,))))
    return [result["partialFingerprints"]["reefwatch/v1"] for result in run["results"]]


def test_a_fingerprint_outlives_lines_steps_and_values() -> None:
    where = reports.UPCAST.place
    moved = replace(
        reports.UPCAST, message="14 %", place=replace(where, line=99, step=7, ranks=(1,))
    )
    assert fingerprints(reports.UPCAST) == fingerprints(moved)
    elsewhere = replace(reports.UPCAST, place=Place("head.fc", where.op, where.file, where.line))
    assert fingerprints(reports.UPCAST) != fingerprints(elsewhere)
    twice = fingerprints(reports.UPCAST, moved)
    assert len(set(twice)) == 2
    assert twice[0] == fingerprints(reports.UPCAST)[0]


def test_a_note_on_a_held_claim_is_a_note() -> None:
    noted = replace(reports.HELD[0], findings=(reports.IDLE,), severity=Severity.NOTE)
    (result,) = check(sarif.render(Report("run", (noted,))))["results"]
    assert result["level"] == "note"


@pytest.mark.parametrize("nasty", reports.NASTY)
def test_any_string(nasty: str) -> None:
    run = check(sarif.render(reports.nasty(nasty), {"PREC001": nasty}))
    assert len(run["results"]) == 3


def test_failures_inside_share_one_rule() -> None:
    failed = tuple(replace(reports.ERRORED, code="WATCH", reason=f"failure {n}") for n in range(3))
    run = check(sarif.render(Report("run", (*failed, reports.HELD[0]))))
    assert sorted(rule["id"] for rule in run["tool"]["driver"]["rules"]) == ["PREC001", "WATCH"]
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 3
