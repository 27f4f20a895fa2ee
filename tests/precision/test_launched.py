"""The third layer: ops of the op layer and events of a profile, joined call by call."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.precision.examine import examine
from reefwatch.gather.precision.launched import Launches


def stepper():
    net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(net.parameters())

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(net(torch.randn(16, 32)), torch.zeros(16).long())
        loss.backward()
        optimizer.step()

    return step, optimizer


def test_all_ops_are_joined_and_the_parts_make_the_whole():
    step, optimizer = stepper()
    record = examine(step, optimizers=[optimizer], claim="bf16-mixed", profiled=2)
    fact = record.facts["precision.time"]
    assert isinstance(fact, Evidence)
    told = fact.value
    assert told["device"] == "cpu"
    assert told["joined"] > 0.99
    assert abs(sum(told["by_kind"].values()) - told["seconds"]) < 1e-9
    assert "unexplained" not in told["by_cause"]
    launched = [event.data for event in record.events if event.kind == "precision.launch"]
    products = [row for row in launched if row["kind"] == "matmul"]
    assert {row["phase"] for row in products} == {"forward", "backward"}
    assert all(row["seconds"] > 0 for row in products)


def test_a_profile_of_something_else_is_not_known():
    step, optimizer = stepper()
    launches = Launches()
    assert launches.fact() == Unknown("no step was profiled")
    record = examine(step, optimizers=[optimizer])
    assert "precision.time" not in record.facts

    class Row:
        name, makes = "aten.mm.default", True

    launches.add([Row()] * 4, [], False)
    assert launches.fact() == Unknown("0 of 4 ops were found in the profile")
