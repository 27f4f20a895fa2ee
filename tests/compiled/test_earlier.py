"""What was compiled before the watch began, as it is when a trainer's callback begins."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from reefwatch.core.finding import Verdict

pytestmark = pytest.mark.serial


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.out(F.relu(self.into(x)))


def model():
    torch.manual_seed(0)
    return Net()


def steps(called):
    for _ in range(3):
        called(torch.randn(5, 6)).sum().backward()


def test_a_compiled_module_is_watched_and_given_back(under, wrong):
    fast = torch.compile(model(), backend=wrong(F.relu, torch.abs))
    before = fast.__dict__["forward"]
    seen = under(lambda: steps(fast))
    assert seen.outcomes["COMP001"].verdict is Verdict.BROKEN
    assert fast.__dict__["forward"] is before


def test_a_module_compiled_in_place_is_watched(under, wrong):
    net = model()
    net.compile(backend=wrong(F.relu, torch.abs))
    before = net._compiled_call_impl
    seen = under(lambda: steps(net))
    assert seen.outcomes["COMP001"].verdict is Verdict.BROKEN
    assert net._compiled_call_impl is before


def test_right_code_of_before_is_held(under):
    fast = torch.compile(model(), backend="aot_eager")
    fast(torch.randn(5, 6))
    seen = under(lambda: steps(fast))
    assert seen.rows == []
    assert seen.outcomes["COMP001"].verdict is Verdict.HELD
    assert seen.calls.value["judged"] >= 2


def test_a_second_watch_sees_what_the_first_one_saw_compiled(tmp_path, under, wrong):
    made = []

    def compiles():
        made.append(torch.compile(model(), backend=wrong(F.relu, torch.abs)))
        steps(made[0])

    under(compiles, out=tmp_path / "first")
    seen = under(lambda: steps(made[0]), out=tmp_path / "second")
    assert seen.outcomes["COMP001"].verdict is Verdict.BROKEN
    assert "call 1:" in seen.rows[0]["text"] or seen.rows[0]["call"] == 1


def test_a_compiled_function_of_before_is_named_and_not_claimed(under):
    @torch.compile(backend="eager")
    def doubled(x):
        return 2 * x

    seen = under(lambda: doubled(torch.ones(3)))
    assert "COMP001" not in seen.outcomes
    assert "before it began" in seen.facts["compile.used"].source
    assert "doubled" in seen.facts["compile.used"].source
