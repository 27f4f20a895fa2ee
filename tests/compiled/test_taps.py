"""The first op that departs, found with the graph whole."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.serial


def second_of_its_kind(old, new):
    """A backend that computes `new` where `old` stands for the second time: cut, it is right."""

    def backend(graph, examples):
        found = [node for node in graph.graph.nodes if node.target is old]
        if len(found) > 1:
            found[1].target = new
        graph.recompile()
        return graph.forward

    return backend


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = F.relu(self.a(x)) * 2 + 0.5
        x = torch.sigmoid(self.b(x)) - 0.5
        x = F.relu(x) + 1
        return self.c(x).tanh()


@pytest.mark.parametrize("gradients", [False, True])
def test_a_fault_that_is_gone_from_a_part_of_the_graph(under, gradients, monkeypatch):
    monkeypatch.setattr("reefwatch.gather.compiled.uses.Use.foreign", False)

    def program():
        torch.manual_seed(0)
        other = steeper if gradients else F.silu
        fast = torch.compile(Twice(), backend=second_of_its_kind(F.relu, other))
        fast(torch.randn(5, 4))

    row = under(program, locate=10_000.0).rows[0]
    assert row["path"].startswith("gradient") is gradients
    assert row["ops"] == ["relu"]
    assert row["source"].startswith(__file__)


class Steeper(torch.autograd.Function):
    """relu with another slope."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.relu(x)

    @staticmethod
    def backward(ctx, sent):
        return 3 * sent * (ctx.saved_tensors[0] > 0)


def steeper(x, inplace=False):
    return Steeper.apply(x)
