"""Every check over its own cases: bad ones are found, good ones not, and nothing proves nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from reefwatch.core.check import Check, check
from reefwatch.core.finding import Finding, Outcome, Severity, Verdict
from reefwatch.core.record import Case, Record
from reefwatch.judge.engine import judge_rank, load


def judged(check: Check, case: Case) -> Outcome | str:
    return judge_rank(check, case.record)


def prove(check: Check) -> None:
    """Raise AssertionError, with the case, for whatever a check must not be."""
    for case in check.bad:
        said = judged(check, case)
        assert isinstance(said, Outcome) and said.findings, f"not found: {case}: {said}"
        if check.severity > Severity.NOTE:
            assert said.verdict is Verdict.BROKEN, f"not broken: {case}"
        for finding in said.findings:
            assert_words(finding)
    for case in check.good:
        said = judged(check, case)
        if isinstance(said, Outcome):
            assert said.verdict is Verdict.HELD, f"{said.verdict} ({said.reason}): {case}"
            assert not said.findings, f"found in a good case: {said.findings[0].message}"
    assert any(isinstance(judged(check, case), Outcome) for case in check.good), "nothing held"
    empty = judge_rank(check, Record())
    assert isinstance(empty, Outcome) and empty.verdict is Verdict.UNPROVEN, f"empty: {empty}"
    for name in check.needs:
        for case in check.good:
            facts = {n: f for n, f in case.record.facts.items() if n != name}
            said = judge_rank(check, Record(facts=facts, events=case.record.events))
            assert isinstance(said, str) or said.verdict is Verdict.UNPROVEN, f"{name}: {said}"


def assert_words(finding: Finding) -> None:
    """Lower case, no exclamation mark, no blame."""
    for text in (finding.message, finding.claimed, finding.why, finding.cost, finding.fix):
        assert "!" not in text.replace("!=", ""), text
        assert not re.match(r"(?:The|An?|This|You|Your|There|It|No|Use|Call|Some|All) ", text), text
        assert not re.search(r"\byou (?:forgot|failed|should have)\b", text, re.IGNORECASE), text
    assert finding.message.strip()


def assert_home(check: Check) -> None:
    """Its file is called by its code, and lies in the folder of its contract."""
    *_, folder, file = check.rule.__module__.split(".")
    assert file.startswith(check.code.lower() + "_"), file
    assert folder == check.contract


@pytest.mark.parametrize("check", load(), ids=lambda check: check.code)
def test_a_check_proves_itself(check: Check) -> None:
    prove(check)
    assert_home(check)


def test_there_are_checks() -> None:
    assert load()


def build(rule: object, good: tuple[Case, ...], bad: tuple[Case, ...]) -> Check:
    def named(case: Case) -> Iterator[Finding]:
        """Things are so. Why: w. Fix: f. Source: s."""
        yield from rule(case)  # type: ignore[operator]

    return check("PREC001", Severity.ERROR, needs=("a",), good=good, bad=bad)(named)


def above_two(case: Case) -> Iterator[Finding]:
    if case.value("a") > 2:
        yield Finding(f"a is {case.value('a')}", (case.evidence("a"),))


def always(case: Case) -> Iterator[Finding]:
    yield Finding("a is there", (case.evidence("a"),))


def shouting(case: Case) -> Iterator[Finding]:
    yield Finding("You forgot a!", (case.evidence("a"),))


def test_a_sound_check_passes() -> None:
    prove(build(above_two, (Case.of(a=1),), (Case.of(a=3),)))


@pytest.mark.parametrize(
    ("rule", "good", "bad", "said"),
    [
        (above_two, (Case.of(a=3),), (Case.of(a=3),), "broken"),
        (above_two, (Case.of(a=1),), (Case.of(a=1),), "not found"),
        (always, (Case.of(a=1),), (Case.of(a=1),), "broken"),
        (shouting, (Case.of(a=1),), (Case.of(a=1),), "You forgot a!"),
        (above_two, (Case.of(b=1),), (Case.of(a=3),), "unproven"),
        (above_two, (Case.of(a="x"),), (Case.of(a=3),), "errored"),
    ],
)
def test_the_proof_can_fail(
    rule: object, good: tuple[Case, ...], bad: tuple[Case, ...], said: str
) -> None:
    with pytest.raises(AssertionError, match=f"(?i){said}"):
        prove(build(rule, good, bad))
