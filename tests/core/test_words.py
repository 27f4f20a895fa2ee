"""The words: what cannot be said wrongly."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from reefwatch.core.check import Check, check
from reefwatch.core.claim import Tolerance
from reefwatch.core.errors import MalformedCheck
from reefwatch.core.fact import Evidence, Grade, Unknown
from reefwatch.core.finding import Coverage, Finding, Outcome, Place, Severity, Verdict
from reefwatch.core.record import Case, Event, Record, latest
from reefwatch.core.report import ExitPolicy, Report, exit_code

SEEN = Evidence("x", 1)


def test_what_needs_a_reason_cannot_be_built_without() -> None:
    for empty in ("", "  ", "\n"):
        with pytest.raises(ValueError, match="needs a reason"):
            Unknown(empty)
        with pytest.raises(ValueError, match="needs a reason"):
            Tolerance(1.0, "ulp", empty)
    with pytest.raises(ValueError, match="needs evidence"):
        Finding("m", ())


def test_values_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        SEEN.value = 2  # type: ignore[misc]


def test_a_tolerance_is_exceeded_by_what_is_no_number() -> None:
    limit = Tolerance(1.0, "ulp", "IEEE 754")
    assert [limit.exceeded_by(value) for value in (0.5, 1.0, 1.5, math.inf, math.nan)] == [
        False, False, True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("grades", "of_check", "told"),
    [
        (["measured"], Severity.ERROR, Severity.ERROR),
        (["by name"], Severity.ERROR, Severity.WARNING),
        (["predicted"], Severity.WARNING, Severity.NOTE),
        (["recalled"], Severity.ERROR, Severity.NOTE),
        (["recalled"], Severity.WARNING, Severity.NOTE),
        (["measured", "by name"], Severity.ERROR, Severity.WARNING),
    ],
)
def test_weak_evidence_lowers_the_severity(
    grades: list[str], of_check: Severity, told: Severity
) -> None:
    evidence = tuple(Evidence("x", 1, grade=Grade(grade)) for grade in grades)
    assert Finding("m", evidence).severity(of_check) is told


def test_a_place_says_what_is_known() -> None:
    assert str(Place()) == ""
    whole = Place("layers.3", "aten.mm", "a.py", 3, 0, (1, 2))
    assert str(whole) == "layers.3, aten.mm, a.py:3, step 0, rank 1,2"


def test_coverage_of_nothing_is_none() -> None:
    assert Coverage("steps", 0, 0).share == 0.0
    assert Coverage("steps", 1, 4).share == 0.25


def test_what_was_not_recorded_is_unknown_with_a_reason() -> None:
    assert Record().fact("a.b") == Unknown("nothing was recorded about a.b")
    damaged = Record(damage="the record is damaged at line 3")
    assert damaged.fact("a.b") == Unknown("the record is damaged at line 3")


def test_later_events_take_the_place_of_earlier_ones() -> None:
    events = [
        Event("a", {"n": 1}, id="1"),
        Event("a", {"n": 2}),
        Event("b", {"n": 3}, id="1"),
        Event("a", {"n": 4}, id="1"),
        Event("a", {"n": 5}),
    ]
    assert [event.data["n"] for event in latest(events)] == [4, 2, 3, 5]
    assert [event.data["n"] for event in Case.of(*events).rows("a")] == [4, 2, 5]


def test_a_case() -> None:
    case = Case.of(precision__ops=3, run__exit=Unknown("killed"), b=Evidence("b", 2, "s"))
    assert case.value("precision.ops") == 3
    assert case.evidence("precision.ops").source == "case"
    assert case.fact("run.exit") == Unknown("killed")
    assert case.known("run.exit", "none") == "none"
    assert case.known("b") == 2
    assert case.known("never") is None
    with pytest.raises(AssertionError, match="not in the check's needs"):
        case.value("never")


PAGE = "All is well.\n\nWhy: w.\nFix: f.\nSource: s."
CASES = {"needs": ("a",), "good": (Case.of(a=1),), "bad": (Case.of(a=2),)}


def rule(case: Case) -> Iterator[Finding]:
    if case.value("a") == 2:
        yield Finding("a is 2", (case.evidence("a"),))


def build(code: str = "PREC001", page: str | None = PAGE, **changed: Any) -> Check:
    def named(case: Case) -> Iterator[Finding]:
        yield from rule(case)

    named.__doc__ = page
    make: Callable[..., Any] = check(code, Severity.ERROR, **{**CASES, **changed})
    built = make(named)
    assert isinstance(built, Check)
    return built


def test_a_check_knows_itself() -> None:
    built = build()
    assert (built.title, built.contract, built.page) == ("All is well", "precision", PAGE)
    assert build("REF001").contract == "numerics"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"code": "PREC1"}, "'PREC1' is not a code of a known family"),
        ({"code": "ABCD001"}, "'ABCD001' is not a code of a known family"),
        ({"code": "prec001"}, "is not a code"),
        ({"page": None}, "PREC001 (build.<locals>.named): no docstring"),
        ({"page": PAGE.replace("Why:", "")}, "has no 'Why:'"),
        ({"page": PAGE.replace("Fix:", "")}, "has no 'Fix:'"),
        ({"page": PAGE.replace("Source:", "")}, "has no 'Source:'"),
        ({"needs": ()}, "needs no evidence"),
        ({"good": ()}, "needs good and bad cases"),
        ({"bad": ()}, "needs good and bad cases"),
    ],
)
def test_a_malformed_check_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(MalformedCheck, match=re.escape(said)) as caught:
        build(**changed)
    assert "named" in str(caught.value)


def outcome(verdict: Verdict, severity: Severity = Severity.NOTE) -> Outcome:
    return Outcome("PREC001", "t", verdict, severity)


HELD, UNPROVEN, ERRORED = map(outcome, (Verdict.HELD, Verdict.UNPROVEN, Verdict.ERRORED))
ERROR = outcome(Verdict.BROKEN, Severity.ERROR)
WARNING = outcome(Verdict.BROKEN, Severity.WARNING)


@pytest.mark.parametrize(
    ("outcomes", "policy", "script", "code"),
    [
        ([], {}, 0, 0),
        ([HELD], {}, 0, 0),
        ([HELD, ERROR], {}, 0, 3),
        ([WARNING], {}, 0, 0),
        ([WARNING], {"threshold": Severity.WARNING}, 0, 3),
        ([UNPROVEN], {}, 0, 0),
        ([UNPROVEN], {"require_proof": True}, 0, 4),
        ([ERRORED], {"require_proof": True}, 0, 4),
        ([ERRORED], {}, 0, 0),
        ([ERRORED], {"fail_internal": True}, 0, 2),
        ([ERRORED, UNPROVEN], {"fail_internal": True, "require_proof": True}, 0, 4),
        ([ERROR, UNPROVEN, ERRORED], {"fail_internal": True, "require_proof": True}, 0, 3),
        ([ERROR], {}, 7, 7),
        ([HELD], {}, -9, -9),
        ([ERROR], {"script_only": True}, 0, 0),
    ],
)
def test_exit_codes(
    outcomes: list[Outcome], policy: dict[str, Any], script: int, code: int
) -> None:
    assert exit_code(Report("run", tuple(outcomes)), ExitPolicy(**policy), script) == code


def test_the_last_line_counts() -> None:
    report = Report("run", (HELD, HELD, ERROR, UNPROVEN))
    assert report.last_line() == "2 held, 1 broken, 1 unproven"
    assert Report("run", (ERRORED,)).last_line() == "0 held, 0 broken, 0 unproven, 1 errored"
