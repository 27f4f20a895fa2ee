"""Where steps end, for one optimizer, several, and those that a GradScaler skips."""

import gc

from reefwatch.gather.steps import Cycles


class Optimizer:
    pass


def boundaries(cycles, order):
    return [cycles.updated(optimizer) for optimizer in order]


def test_one_optimizer():
    assert boundaries(Cycles(), [Optimizer()] * 1) == [True]
    one = Optimizer()
    assert boundaries(Cycles(), [one, one, one]) == [True] * 3


def test_two_in_turn_make_one_step():
    one, two = Optimizer(), Optimizer()
    assert boundaries(Cycles(), [one, two] * 4) == [True, False] * 4


def test_a_critic_stepped_five_times_as_often():
    critic, maker = Optimizer(), Optimizer()
    order = ([critic] * 5 + [maker]) * 3
    assert boundaries(Cycles(), order) == ([True] * 5 + [False]) * 3
    order = ([maker] + [critic] * 4) * 5
    assert boundaries(Cycles(), order) == [True, False, False, False, False] * 5


def test_an_anchor_that_is_no_longer_stepped_is_given_up():
    first, second = Optimizer(), Optimizer()
    cycles = Cycles()
    boundaries(cycles, [first] * 10)
    found = boundaries(cycles, [second] * 10)
    assert found == [False] * 4 + [True] * 6
    assert cycles.anchor is second


def test_an_anchor_that_is_gone_is_given_up_at_once():
    first, second = Optimizer(), Optimizer()
    cycles = Cycles()
    cycles.updated(first)
    del first
    gc.collect()
    assert boundaries(cycles, [second, second]) == [True, True]


def test_a_skipped_update_ends_a_step():
    one, cycles = Optimizer(), Cycles()
    cycles.backward()
    assert cycles.rescaled()  # the very first, skipped
    cycles.backward()
    assert cycles.updated(one)
    assert not cycles.rescaled()
    cycles.backward()
    assert cycles.rescaled()


def test_two_optimizers_under_one_scaler():
    one, two, cycles = Optimizer(), Optimizer(), Cycles()
    for _ in range(3):
        cycles.backward()
        assert cycles.updated(one)
        cycles.backward()
        assert not cycles.updated(two)
        assert not cycles.rescaled()


def test_a_scaler_each():
    one, two, cycles = Optimizer(), Optimizer(), Cycles()
    for _ in range(3):
        cycles.backward()
        assert cycles.updated(one)
        assert not cycles.rescaled()
        cycles.backward()
        assert not cycles.updated(two)
        assert not cycles.rescaled()
