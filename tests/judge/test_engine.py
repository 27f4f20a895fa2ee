"""The engine: what becomes of a claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reefwatch.core.check import Check, check
from reefwatch.core.errors import MalformedCheck
from reefwatch.core.fact import Evidence, Grade, Unknown
from reefwatch.core.finding import Coverage, Finding, Outcome, Place, Severity, Verdict
from reefwatch.core.record import Case, Event, Record
from reefwatch.judge import engine
from reefwatch.judge.engine import join_ranks, judge, judge_rank


def rule(case: Case) -> Iterator[Finding]:
    """All is well.

    Why: w. Fix: f. Source: s.
    """
    if case.value("a") == "fail":
        raise KeyError("missing")
    for row in case.rows("bad"):
        place = Place(row.data.get("module", ""), file="t.py", line=3)
        yield Finding(row.data["said"], (case.evidence("a"),), place)


def make(severity: Severity = Severity.ERROR, **more: Any) -> Check:
    bad = (Case.of(Event("bad", {"said": "x"}), a=1),)
    return check(
        "PREC001", severity, needs=("a",), good=(Case.of(a=1), Case.of(a="text")), bad=bad, **more
    )(rule)


def steps(case: Case) -> tuple[Coverage, ...]:
    return (Coverage("steps", case.value("a"), 10), Coverage("ops", 5, 5))


def record(*said: str, rank: int = 0, module: str = "", **facts: Any) -> Record:
    named = Case.of(*(Event("bad", {"said": s, "module": module}) for s in said), **facts).record
    return Record({"rank": rank, "world": 2}, named.facts, named.events)


def one(check: Check, *records: Record) -> Outcome:
    (outcome,), unclaimed = judge(records, [check])
    assert unclaimed == {}
    return outcome


def test_held_and_broken() -> None:
    held = one(make(covers=steps), record(a=1))
    assert (held.verdict, held.reason, held.findings) == (Verdict.HELD, "", ())
    assert held.coverage == (Coverage("steps", 1, 10), Coverage("ops", 5, 5))
    assert (held.title, held.contract) == ("All is well", "precision")
    broken = one(make(), record("x", "y", a=1))
    assert (broken.verdict, broken.severity) == (Verdict.BROKEN, Severity.ERROR)
    assert [finding.message for finding in broken.findings] == ["x", "y"]


def test_unproven_with_the_reason_of_what_is_missing() -> None:
    nothing = one(make(), record())
    assert (nothing.verdict, nothing.reason) == (Verdict.UNPROVEN, "nothing was recorded about a")
    known = one(make(), record("x", a=Unknown("torch was not imported")))
    assert (known.verdict, known.reason) == (Verdict.UNPROVEN, "torch was not imported")
    assert known.findings == ()
    damaged = one(make(), Record(damage="the record is damaged at line 3"))
    assert damaged.reason == "the record is damaged at line 3"


def test_a_check_that_fails_is_errored_and_does_not_end_the_others() -> None:
    failed = one(make(), record(a="fail"))
    assert failed.verdict is Verdict.ERRORED
    assert failed.reason == "the check failed: KeyError: 'missing'"
    late = one(make(covers=steps), record(a="text"))
    assert late.reason == "the check failed: TypeError: must be real number, not str"
    outcomes, _ = judge([record(a="fail")], [make(), make()])
    assert len(outcomes) == 2


def test_a_claim_that_is_not_made() -> None:
    with_when = make(when=("claimed",))
    outcomes, unclaimed = judge([record(a=1, claimed=False)], [with_when])
    assert outcomes == () and unclaimed == {"PREC001": "case"}
    assert one(with_when, record(a=1, claimed=True)).verdict is Verdict.HELD
    assert one(with_when, record(a=1)).verdict is Verdict.UNPROVEN
    outcomes, unclaimed = judge([], [with_when])
    assert outcomes == () and unclaimed == {}


def test_a_claim_made_on_one_rank_is_judged_there() -> None:
    ranks = [record(a=1, claimed=False), record("x", a=1, claimed=True, rank=1)]
    outcome = one(make(when=("claimed",)), *ranks)
    assert outcome.verdict is Verdict.BROKEN


def test_notes_break_nothing() -> None:
    outcome = one(make(Severity.NOTE), record("x", a=1))
    assert (outcome.verdict, outcome.severity) == (Verdict.HELD, Severity.NOTE)
    assert len(outcome.findings) == 1
    weak = Evidence("a", 1, grade=Grade.RECALLED)
    outcome = one(make(Severity.ERROR), record("x", a=weak))
    assert (outcome.verdict, outcome.severity) == (Verdict.HELD, Severity.NOTE)
    by_name = Evidence("a", 1, grade=Grade.BY_NAME)
    outcome = one(make(Severity.ERROR), record("x", a=by_name))
    assert (outcome.verdict, outcome.severity) == (Verdict.BROKEN, Severity.WARNING)


def test_ranks_that_say_the_same_are_told_once() -> None:
    ranks = [record("x", a=1, rank=n) for n in (3, 0, 1)]
    (finding,) = one(make(), *ranks).findings
    assert finding.place.ranks == (0, 1, 3)
    apart = one(make(), record("x", a=1, module="m"), record("x", a=1, module="n", rank=1))
    assert [f.place.ranks for f in apart.findings] == [(0,), (1,)]


def test_one_rank_alone_names_no_rank() -> None:
    assert one(make(), record("x", a=1)).findings[0].place.ranks == ()


@pytest.mark.parametrize(
    ("others", "verdict", "reason", "beneath"),
    [
        ([record(a=1, rank=1)], Verdict.HELD, "", Verdict.HELD),
        ([record(rank=1)], Verdict.UNPROVEN, "rank 1: nothing was", Verdict.UNPROVEN),
        ([record(a="fail", rank=1)], Verdict.ERRORED, "rank 1: the check", Verdict.ERRORED),
        ([record("x", a=1, rank=1)], Verdict.BROKEN, "", Verdict.HELD),
        (
            [record("x", a=1, rank=1), record(rank=2)],
            Verdict.BROKEN,
            "rank 2: nothing was",
            Verdict.UNPROVEN,
        ),
        (
            [record(rank=1), record(a="fail", rank=2)],
            Verdict.ERRORED,
            "rank 2: the check",
            Verdict.ERRORED,
        ),
    ],
)
def test_the_worst_rank_decides(
    others: list[Record], verdict: Verdict, reason: str, beneath: Verdict
) -> None:
    outcome = one(make(), record(a=1), *others)
    assert outcome.verdict is verdict
    assert outcome.reason.startswith(reason) and bool(outcome.reason) == bool(reason)
    assert outcome.beneath is beneath


def test_the_least_coverage_of_the_ranks_is_told() -> None:
    outcome = one(make(covers=steps), record(a=7), record(a=2, rank=1))
    assert outcome.coverage == (Coverage("steps", 2, 10), Coverage("ops", 5, 5))


def test_joining_one_rank_changes_nothing() -> None:
    outcome = judge_rank(make(), record("x", a=1))
    assert isinstance(outcome, Outcome)
    assert join_ranks([(0, outcome)]) is outcome


def test_a_code_used_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Info:
        def __init__(self, name: str) -> None:
            self.name = name

    class Module:
        def __init__(self) -> None:
            self.found = make()

    monkeypatch.setattr(engine.pkgutil, "walk_packages", lambda *_: [Info("p.a"), Info("p.b")])
    monkeypatch.setattr(engine.importlib, "import_module", lambda name: Module())
    with pytest.raises(MalformedCheck, match=r"PREC001 is used twice: p\.a and p\.b"):
        engine.load()


def test_after_a_failure_of_ours_nothing_is_held() -> None:
    """What was seen until then may still be found broken."""
    error = Evidence("errored.watch", {"error": "KeyError: x", "where": "", "step": 7})
    for name in ("watch", "precision"):
        facts = {f"errored__{name}": error}
        outcome = one(make(), record(a=1, **facts))
        assert outcome.verdict is Verdict.UNPROVEN
        assert outcome.reason == f"{name} failed in step 7: KeyError: x"
        assert one(make(), record("x", a=1, **facts)).verdict is Verdict.BROKEN
    assert one(make(), record(a=1, errored__loop=error)).verdict is Verdict.HELD
