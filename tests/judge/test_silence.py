"""What is silenced breaks no claim, is told all the same, and never proves one."""

from __future__ import annotations

from datetime import date

import pytest

from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Outcome, Place, Severity, Verdict
from reefwatch.core.silence import Silence, fingerprint
from reefwatch.judge.silence import apply

TODAY = date(2030, 1, 1)


def finding(module: str, grade: Grade = Grade.MEASURED) -> Finding:
    return Finding("m", (Evidence("x", 1, grade=grade),), Place(module))


def broken(*findings: Finding, of_check: Severity = Severity.ERROR, **more: object) -> Outcome:
    worst = max(f.severity(of_check) for f in findings)
    verdict = Verdict.BROKEN if worst > Severity.NOTE else Verdict.HELD
    return Outcome("PREC001", "t", verdict, worst, findings, **more)  # type: ignore[arg-type]


def silence(module: str = "", reason: str = "known", **more: object) -> Silence:
    return Silence("PREC001", reason, "reefwatch.toml, silence 1", module, **more)  # type: ignore[arg-type]


A, B = finding("a"), finding("b")


def test_all_findings_silenced() -> None:
    (outcome,), remarks = apply([broken(A, B)], [silence()], TODAY)
    assert (outcome.verdict, outcome.severity) == (Verdict.HELD, Severity.NOTE)
    assert outcome.findings == () and outcome.silenced == ((A, "known"), (B, "known"))
    assert outcome.reason == "2 findings silenced: known"
    assert remarks == ()


def test_some_findings_silenced() -> None:
    (outcome,), remarks = apply([broken(A, B)], [silence("a")], TODAY)
    assert (outcome.verdict, outcome.severity) == (Verdict.BROKEN, Severity.ERROR)
    assert outcome.findings == (B,) and outcome.silenced == ((A, "known"),)
    assert outcome.reason == "1 finding silenced: known"
    assert remarks == ()


def test_reasons_are_told_once_each() -> None:
    silences = [silence("a", "first"), silence("b", "second")]
    (outcome,), _ = apply([broken(A, B, finding("a"))], silences, TODAY)
    assert outcome.reason == "3 findings silenced: first; second"


@pytest.mark.parametrize("of_check", [Severity.WARNING, Severity.ERROR])
@pytest.mark.parametrize("left", list(Grade))
@pytest.mark.parametrize("gone", list(Grade))
def test_the_severity_is_that_of_what_is_left(of_check: Severity, left: Grade, gone: Grade) -> None:
    stays = finding("b", left)
    before = broken(finding("a", gone), stays, of_check=of_check)
    (outcome,), _ = apply([before], [silence("a")], TODAY)
    assert outcome.severity is stays.severity(of_check)
    assert (outcome.verdict is Verdict.BROKEN) == (outcome.severity > Severity.NOTE)


def test_silencing_does_not_prove_what_another_rank_left_unproven() -> None:
    before = broken(A, reason="rank 1: killed", beneath=Verdict.UNPROVEN)
    (outcome,), _ = apply([before], [silence()], TODAY)
    assert outcome.verdict is Verdict.UNPROVEN
    assert outcome.reason == "1 finding silenced: known; rank 1: killed"


def test_a_silenced_note_leaves_the_verdict() -> None:
    (outcome,), _ = apply([broken(A, of_check=Severity.NOTE)], [silence()], TODAY)
    assert outcome.verdict is Verdict.HELD and len(outcome.silenced) == 1


def test_other_outcomes_are_left_as_they_are() -> None:
    unproven = Outcome("PREC002", "t", Verdict.UNPROVEN, reason="why")
    other = Outcome("PREC003", "t", Verdict.BROKEN, Severity.ERROR, (A,))
    outcomes, _ = apply([unproven, other], [silence()], TODAY)
    assert outcomes == (unproven, other)
    assert apply([other], [], TODAY) == ((other,), ())


def test_an_expired_silence_does_not_apply_and_is_told() -> None:
    old = silence(expires=date(2029, 12, 31))
    (outcome,), remarks = apply([broken(A)], [old], TODAY)
    assert outcome.verdict is Verdict.BROKEN
    assert remarks == (
        "the silence of PREC001 (reefwatch.toml, silence 1) expired on 2029-12-31: known",
    )
    (outcome,), remarks = apply([broken(A)], [silence(expires=TODAY)], TODAY)
    assert outcome.verdict is Verdict.HELD and remarks == ()


def test_an_unused_silence_is_told() -> None:
    _, remarks = apply([broken(A)], [silence("b")], TODAY)
    assert remarks == (
        "the silence of PREC001 (reefwatch.toml, silence 1) matches nothing: it can be taken out",
    )
    held = Outcome("PREC001", "t", Verdict.HELD)
    assert len(apply([held], [silence()], TODAY)[1]) == 1


def test_a_silence_that_could_not_be_tried_is_not_called_unused() -> None:
    unproven = Outcome("PREC001", "t", Verdict.UNPROVEN, reason="why")
    for outcomes in ([unproven], []):
        _, remarks = apply(outcomes, [silence()], TODAY)
        assert remarks == (
            "the silence of PREC001 (reefwatch.toml, silence 1) was not put to use: "
            "PREC001 was not judged here",
        )


def test_two_that_match_are_both_used_and_the_first_tells_the_reason() -> None:
    (outcome,), remarks = apply([broken(A)], [silence("a", "1"), silence("a", "2")], TODAY)
    assert outcome.silenced == ((A, "1"),) and remarks == ()


def test_the_unused_ones_of_a_baseline_are_told_together() -> None:
    marks = [fingerprint("PREC001", finding(name)) for name in "acd"]
    silences = [Silence("PREC001", "old", "base.json", fingerprint=mark) for mark in marks]
    (outcome,), remarks = apply([broken(A)], silences, TODAY)
    assert outcome.silenced == ((A, "old"),)
    assert remarks == ("2 silences match nothing in base.json: write it again to take them out",)
