"""Whatever stands in a record, no check and no page fails over it: unproven, with the reason."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from reefwatch.core.check import Check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Verdict
from reefwatch.core.record import Event, Record
from reefwatch.core.report import ExitPolicy, Report, exit_code
from reefwatch.judge import engine
from reefwatch.show import html, junit, sarif, text
from reefwatch.show import json as as_json

CHECKS = {check.code: check for check in engine.load()}
DEEP: Any = "x"
for _ in range(300):
    DEEP = [DEEP]
ODD = (
    None,
    True,
    -1,
    10**400,
    float("nan"),
    float("-inf"),
    "",
    "nan",
    "\ud800\x1b[31m",
    [],
    {},
    [None],
    {"a": 1},
    DEEP,
)
MISSING = object()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    parts = value.items() if isinstance(value, dict) else ()
    if isinstance(value, (list, tuple)):
        parts = list(enumerate(value))[:1]
    for key, part in parts:
        yield from places(part, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value = list(value) if isinstance(value, tuple) else copy.copy(value)
    if len(path) == 1 and new is MISSING:
        del value[path[0]]
    else:
        value[path[0]] = changed(value[path[0]], path[1:], new)
    return value


def odd_records(check: Check) -> Iterator[tuple[str, Record]]:
    """The check's cases, each with one value of one fact or row put in another form."""
    for case in (check.good[0], check.bad[0]):
        record = case.record
        for name, fact in record.facts.items():
            if isinstance(fact, Evidence):
                for path in places(fact.value):
                    for new in (*ODD, *([MISSING] if path else [])):
                        value = changed(fact.value, path, new)
                        facts = {**record.facts, name: replace(fact, value=value)}
                        yield f"{name} {path} {new!r:.40}", replace(record, facts=facts)
        for at, event in enumerate(record.events[:2]):
            for path in places(dict(event.data)):
                for new in (*ODD, MISSING) if path else ():
                    data = changed(dict(event.data), path, new)
                    events = list(record.events)
                    events[at] = replace(event, data=data)
                    yield f"{event.kind} {path} {new!r:.40}", replace(record, events=tuple(events))


@pytest.mark.parametrize("code", CHECKS)
def test_a_value_of_another_form_is_no_fault(code: str) -> None:
    check = CHECKS[code]
    unproven = 0
    for number, (what, record) in enumerate(odd_records(check)):
        outcomes, unclaimed = engine.judge([record], [check])
        for outcome in outcomes:
            assert outcome.verdict is not Verdict.ERRORED, f"{what}: {outcome.reason}"
            unproven += outcome.verdict is Verdict.UNPROVEN
        if number % 40 and all(outcome.verdict is Verdict.UNPROVEN for outcome in outcomes):
            continue  # nothing of the odd value is shown
        report = Report("report", outcomes, unclaimed, (record,))
        assert exit_code(report, ExitPolicy()) in (0, 3)
        json.loads(as_json.render(report))
        text.render(report, color=False, width=80, ascii=True)
        if number % 40 == 0:
            for show in (html, sarif):
                show.render(report, pages={code: check.page})
            junit.render(report)
    assert unproven


def test_what_is_odd_is_named() -> None:
    check = CHECKS["LOOP001"]
    good = check.good[0].record
    cycles = dict(good.facts["loop.cycles"].value)  # type: ignore[union-attr,arg-type]
    del cycles["watched"]
    facts = {**good.facts, "loop.cycles": Evidence("loop.cycles", cycles)}
    (outcome,), _ = engine.judge([replace(good, facts=facts)], [check])
    assert outcome.verdict is Verdict.UNPROVEN
    assert outcome.reason == (
        "the record is not one that this version can judge: loop.cycles has no 'watched'"
    )


def test_a_check_that_fails_over_a_sound_record_has_errored() -> None:
    good = CHECKS["LOOP001"].good[0].record

    def fails(case: object) -> Iterator[Any]:
        raise TypeError("mine")

    (outcome,), _ = engine.judge([good], [replace(CHECKS["LOOP001"], rule=fails)])
    assert (outcome.verdict, outcome.reason) == (
        Verdict.ERRORED,
        "the check failed: TypeError: mine",
    )


def test_an_odd_row_after_sound_ones_is_found() -> None:
    check = next(c for c in CHECKS.values() if c.bad[0].record.events)
    bad = check.bad[0].record
    odd = Event(bad.events[0].kind, {}, id="odd")
    (outcome,), _ = engine.judge([replace(bad, events=(*bad.events, odd))], [check])
    assert outcome.verdict is not Verdict.ERRORED
