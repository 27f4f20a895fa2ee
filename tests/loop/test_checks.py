"""The checks' own cases, and what they say of a record without evidence."""

import pytest
import torch

from reefwatch.core.finding import Severity, Verdict
from reefwatch.core.record import Case, Record
from reefwatch.judge.engine import judge_rank, load

CHECKS = [check for check in load() if check.contract == "loop"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_the_cases_of_a_check(check):
    for case in check.good:
        assert judge_rank(check, case.record).verdict is Verdict.HELD
    for case in check.bad:
        outcome = judge_rank(check, case.record)
        assert outcome.findings
        assert outcome.verdict is (
            Verdict.HELD if check.severity is Severity.NOTE else Verdict.BROKEN
        )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_an_empty_record_proves_nothing(check):
    assert judge_rank(check, Record()).verdict is Verdict.UNPROVEN


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_a_run_without_training_makes_no_claim(check):
    if check.code == "LOOP016":  # its claim is a trainer's: `loop.clip` is not there, or empty
        facts = {"loop__clip": {}}
        assert isinstance(judge_rank(check, Case.of(**facts).record), str)
        return
    facts = {"loop__training": False, "loop__scaled": False}
    assert isinstance(judge_rank(check, Case.of(**facts).record), str)


def test_losses_that_could_not_be_read_prove_nothing(bars):
    def program():
        model = bars.MODELS["mlp"]()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            out = model(model.batch()[0])
            out.backward(torch.ones_like(out))
            optimizer.step()

    outcome = bars.watched(lambda: program)["LOOP006"]
    assert outcome.verdict is Verdict.UNPROVEN
    assert outcome.reason == "none of 3 backward passes began at a scalar that could be read"


def test_one_update_does_not_prove_that_parameters_change(bars):
    def program():
        model = bars.MODELS["mlp"]()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        x, y = model.batch()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    assert bars.watched(lambda: program)["LOOP005"].verdict is Verdict.UNPROVEN
