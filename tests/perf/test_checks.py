"""Every check of the contract over its own cases, and the words of its page."""

from __future__ import annotations

import pytest

from reefwatch.core.check import Check
from reefwatch.core.fact import Unknown
from reefwatch.core.finding import Outcome, Severity, Verdict
from reefwatch.core.record import Case, Record
from reefwatch.judge.engine import judge_rank, load

PERF = [check for check in load() if check.contract == "perf"]


def each(which: str) -> list[object]:
    return [
        pytest.param(check, case, id=f"{check.code}-{which}{n}")
        for check in PERF
        for n, case in enumerate(getattr(check, which))
    ]


def test_the_codes() -> None:
    assert [check.code for check in PERF] == [f"PERF00{n}" for n in range(1, 9)]


@pytest.mark.parametrize(("check", "case"), each("good"))
def test_good(check: Check, case: Case) -> None:
    outcome = judge_rank(check, case.record)
    assert not isinstance(outcome, str)
    assert (outcome.verdict, outcome.findings) == (Verdict.HELD, ())


@pytest.mark.parametrize(("check", "case"), each("bad"))
def test_bad(check: Check, case: Case) -> None:
    outcome = judge_rank(check, case.record)
    assert not isinstance(outcome, str)
    assert (outcome.verdict, outcome.severity) == (Verdict.BROKEN, Severity.WARNING)
    for finding in outcome.findings:
        assert finding.message[0].islower() or finding.message[0].isdigit()
        assert "!" not in finding.message + finding.fix and finding.fix


@pytest.mark.parametrize("check", PERF, ids=lambda check: check.code)
def test_what_is_missing_is_unproven_with_its_reason(check: Check) -> None:
    empty = judge_rank(check, Record())
    assert not isinstance(empty, str) and empty.verdict is Verdict.UNPROVEN
    claimed = {name.replace(".", "__"): True for name in check.when}
    for need in check.needs:
        refused = Case.of(**claimed, **{need.replace(".", "__"): Unknown("the sensor is asleep")})
        outcome = judge_rank(check, refused.record)
        assert not isinstance(outcome, str)
        assert (outcome.verdict, outcome.reason) == (Verdict.UNPROVEN, "the sensor is asleep")


@pytest.mark.parametrize("check", PERF, ids=lambda check: check.code)
def test_no_gpu_no_claim(check: Check) -> None:
    assert "perf.gpu" in check.when
    assert judge_rank(check, Case.of(perf__gpu=False).record) == "case"


def test_a_busy_card_does_not_wait() -> None:
    (check,) = [check for check in PERF if check.code == "PERF005"]
    wait = {"seconds": 4.0, "of": 10.0, "batches": 9, "workers": 4, "pin_memory": True}
    facts = {"perf__gpu": True, "perf__loader": True, "perf__wait": wait}
    broken = judge_rank(check, Case.of(**facts, perf__busy={"median": 94, "samples": 9}).record)
    held = judge_rank(check, Case.of(**facts, perf__busy={"median": 95, "samples": 9}).record)
    assert not isinstance(broken, str) and not isinstance(held, str)
    assert (broken.verdict, held.verdict) == (Verdict.BROKEN, Verdict.HELD)
    assert broken.findings[0].message == (
        "40% of the step time is spent waiting for the data loader; "
        "the card was 94 % busy at the median"
    )


def test_heat_without_a_known_clock_is_unproven() -> None:
    heat = {"busy": 100, "told": 100, "hot": 40, "hot_clock": None, "reasons": {"temperature": 40}}
    heat |= {"sensor": None, "hottest": None, "limit": None}
    outcome = judge_rank(PERF[0], Case.of(perf__gpu=True, perf__heat=heat).record)
    assert isinstance(outcome, Outcome)
    assert outcome.verdict is Verdict.UNPROVEN
    assert outcome.reason == "the card told of heat, and its clock meanwhile is not known"
