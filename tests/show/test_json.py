"""The JSON of all verbs."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from syrupy.assertion import SnapshotAssertion

from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.report import Report
from reefwatch.show import json as show_json
from tests.show import reports
from tests.show.test_text import SHAPES

SCHEMA = json.loads(
    (files("reefwatch.show") / "schema" / "report-1.schema.json").read_text("utf-8")
)


def refuse(constant: str) -> Any:
    raise ValueError(constant)


def strict(text: str) -> Any:
    """The parsed text, which must be what any parser takes, and follow the schema."""
    assert text.isascii()
    assert text.endswith("}\n")
    document = json.loads(text, parse_constant=refuse)
    json.dumps(document, ensure_ascii=False).encode("utf-8")
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("shape", SHAPES)
def test_follows_the_schema_and_tells_every_outcome(shape: str) -> None:
    report = SHAPES[shape]()
    document = strict(show_json.render(report))
    assert document["schema"] == 1
    assert document["last_line"] == report.last_line()
    assert [o["code"] for o in document["outcomes"]] == [o.code for o in report.outcomes]
    assert sum(document["counts"].values()) == len(report.outcomes)


@pytest.mark.parametrize("shape", ["several ranks", "unproven", "silenced", "empty"])
def test_snapshot(shape: str, snapshot: SnapshotAssertion) -> None:
    report = SHAPES[shape]()
    short = tuple(
        replace(record, facts=dict(list(record.facts.items())[:4])) for record in report.records
    )
    assert show_json.render(replace(report, records=short[:2])) == snapshot


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("command",), 3),
        (("outcomes", 0, "verdict"), "fine"),
        (("outcomes", 0, "severity"), "bad"),
        (("outcomes", 0, "findings", 0, "evidence"), []),
        (("outcomes", 0, "findings", 0, "evidence", 0, "grade"), "sure"),
        (("outcomes", 0, "findings", 0, "place", "ranks"), ["0"]),
        (("records", 0, "facts", "run.exit"), {"val": 3}),
        (("schema",), 2),
    ],
)
def test_the_schema_refuses_what_it_should(path: tuple[str | int, ...], value: Any) -> None:
    document = strict(show_json.render(reports.cnn_report()))
    part = document
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_the_same_report_gives_the_same_bytes_whatever_the_order_of_its_mappings() -> None:
    report = reports.several_ranks()
    turned = replace(
        report,
        records=tuple(
            replace(record, facts=dict(reversed(record.facts.items())))
            for record in reversed(report.records)
        ),
        facts=dict(reversed(report.facts.items())),
        unclaimed=dict(reversed(report.unclaimed.items())),
    )
    assert show_json.render(turned) == show_json.render(report)


def test_numbers_that_are_not_finite_are_strings() -> None:
    values = [float("nan"), float("inf"), -float("inf"), 1e300, -0.0, 10**400]
    finding = replace(reports.UPCAST, evidence=(Evidence("v", values, "", "s", Grade.PREDICTED),))
    outcome = reports.broken("PREC001", "t", "precision", finding)
    document = strict(show_json.render(Report("run", (outcome,))))
    evidence = document["outcomes"][0]["findings"][0]["evidence"][0]
    assert evidence["value"] == ["NaN", "Infinity", "-Infinity", 1e300, 0.0, 10**400]
    assert evidence["grade"] == "predicted"


def test_facts_that_json_does_not_know_become_text() -> None:
    facts = {"set": {3, 1}, "object": 3 + 4j, "key": {4: (1, b"x")}, "enum": Grade.BY_NAME}
    document = strict(show_json.render(Report("plan", (), facts=facts)))
    assert document["facts"] == {
        "set": [1, 3],
        "object": "(3+4j)",
        "key": {"4": [1, "b'x'"]},
        "enum": "by name",
    }


@pytest.mark.parametrize("nasty", reports.NASTY)
def test_nasty_strings_come_back_as_they_were(nasty: str) -> None:
    document = strict(show_json.render(reports.nasty(nasty)))
    expected = nasty.encode("utf-8", "backslashreplace").decode()
    assert document["outcomes"][0]["findings"][0]["message"] == expected
