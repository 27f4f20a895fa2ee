"""A part of the fault bank, with a fresh seed each time; the whole of it is `make verify-loop`."""

import random

import pytest

OPERATORS = [
    "no zero_grad",
    "zero_grad after backward",
    "backward in autocast",
    "bf16 scaler",
    "eval in training",
    "train in evaluation",
    "same batch",
    "left out of the optimizer",
    "layer made anew",
    "detach",
    "learning rate 0",
    "inf gradient",
]


@pytest.fixture
def seed() -> int:
    return random.SystemRandom().randrange(1 << 30)


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_operator_is_found_and_located(bars, operator, seed):
    trials = [trial for trial in bars.bank(seed) if trial.operator == operator]
    for trial in random.Random(seed).sample(trials, 3):
        assert bars.try_one(trial) == (True, True), (trial, seed)


@pytest.mark.parametrize("model", ["mlp", "cnn", "transformer", "rnn"])
def test_an_op_that_yields_nan_is_named(bars, model, seed):
    for site in random.Random(seed).sample(range(bars.op_sites(model)), 4):
        _, agreed, right = bars.try_op(model, site, float("nan"), seed)
        assert agreed and right, (site, seed)


def test_an_op_that_overflows_is_named(bars, seed):
    for site in random.Random(seed).sample(range(bars.op_sites("mlp")), 4):
        _, agreed, right = bars.try_op("mlp", site, float("inf"), seed)
        assert agreed and right, (site, seed)


def test_the_bank_covers_every_layer(bars):
    trials = list(bars.bank(0))
    sites = {t.site for t in trials if t.operator == "layer made anew" and t.model == "transformer"}
    assert sites == set(bars.leaves(bars.MODELS["transformer"]()))
