"""Strict mode raises at the first breach, in the user's own frame."""

import sys

import pytest

from reefwatch.core.errors import Breach
from reefwatch.judge.strict import Referee


def strict(bars, make):
    lab = sys.modules["loop_lab"]  # loaded by the bars
    lab.recorded(make, strict=("loop",), referee=Referee(("loop",)))


def test_a_gradient_not_cleared_raises_at_the_second_step(bars):
    with pytest.raises(Breach, match="LOOP001: gradients of AdamW were not cleared") as caught:
        strict(bars, lambda: bars.Classify("mlp", bars.Fault("no zero_grad")))
    places = [(entry.path.name, entry.lineno + 1) for entry in caught.traceback]
    assert ("loop_lab.py", bars.line("step")) in places


def test_a_nan_loss_raises_before_its_backward_with_the_op_that_made_it(bars):
    made = []

    def make():
        made.append(bars.Poisoned("cnn", 0))
        return made[0]

    with pytest.raises(Breach, match="LOOP007: the loss is nan; ") as caught:
        strict(bars, make)
    assert made[0].poison.hit in str(caught.value)


def test_a_clean_loop_passes(bars):
    strict(bars, lambda: bars.Classify("mlp"))
