"""Why an op is in fp32, forward, backward and optimizer; whom its bytes are charged to."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from reefwatch.core.record import Case
from reefwatch.gather.precision.examine import examine


def rows(step, kind="precision.op", **more):
    return [event.data for event in Case(examine(step, **more)).rows(kind)]


def one(told, op, phase="forward", **want):
    found = [
        row
        for row in told
        if row["op"].startswith(f"aten.{op}")
        and row["phase"] in (phase, "setup" if phase == "forward" else phase)
        and all(row[key] == value for key, value in want.items())
    ]
    assert found, [(row["op"], row["phase"], row["cause"]) for row in told]
    return found[0]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("table", torch.ones(8))

    def forward(self, x):
        y = self.one(x) * self.table
        return self.two(torch.relu(y))


def scaled(dtype=torch.bfloat16):
    net = Scaled()
    optimizer = torch.optim.AdamW(net.parameters())

    def step():
        with torch.autocast("cpu", dtype):
            loss = net(torch.randn(4, 8)).float().pow(2).mean()
        loss.backward()
        optimizer.step()

    return step, optimizer


def test_promotion_names_the_buffer_and_its_followers_are_charged_to_it():
    step, optimizer = scaled()
    told = rows(step, optimizers=[optimizer])
    promoted = one(told, "mul.Tensor", module="Scaled")
    assert (promoted["cause"], promoted["grade"]) == ("type promotion", "measured")
    assert promoted["origin"] == "the buffer Scaled.table in fp32"
    follower = one(told, "relu")
    assert follower["cause"] == "inherited"
    number = [row["op"] for row in told].index(promoted["op"])
    assert follower["root"] == number
    saved = rows(step, "precision.saved_by", optimizers=[optimizer])
    assert not [row for row in saved if row["op"].startswith("aten.relu")]


def test_every_fp32_byte_has_a_cause_in_every_phase():
    step, optimizer = scaled()
    told = rows(step, optimizers=[optimizer])
    wide = [row for row in told if row["out"][:1] == ["f32"]]
    assert {row["phase"] for row in wide} >= {"forward", "backward", "optimizer"}
    assert [row["op"] for row in wide if row["cause"] is None] == []


def test_the_gradient_of_a_weight_is_fp32_because_the_weight_is():
    step, optimizer = scaled()
    told = rows(step, optimizers=[optimizer])
    cast = one(told, "_to_copy", "backward", module="two", out=["f32"])
    assert cast["cause"] == "inherited"
    assert cast["origin"].startswith("the parameter two.")


@pytest.mark.parametrize(
    ("call", "op", "cause"),
    [
        (lambda x: F.cross_entropy(x, torch.zeros(4).long()), "_log_softmax", "policy"),
        (lambda x: F.log_softmax(x, -1, dtype=torch.float32), "_log_softmax", "explicit upcast"),
        (lambda x: F.mse_loss(x, x.detach()), "mse_loss", "policy"),
        (lambda x: torch.arange(8.0) + 1, "arange", "made in f32"),
        (lambda x: F.layer_norm(x, (8,), torch.ones(8)), "native_layer_norm", "kernel returns f32"),
    ],
)
def test_the_cause_of_one_call(call, op, cause):
    layer = nn.Linear(8, 8)

    def step():
        with torch.autocast("cpu", torch.bfloat16):
            call(layer(torch.randn(4, 8)))

    assert one(rows(step), op)["cause"] == cause


def test_a_call_outside_the_region_is_told():
    from reefwatch.judge.engine import judge, load

    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net
            self.first = nn.Linear(8, 8)

        def forward(self, x):
            x = self.first(x)
            with torch.autocast("cpu", torch.bfloat16):
                return self.inner(x)

    model = Net()
    record = examine(lambda: model(torch.randn(4, 8)).sum().backward(), claim="bf16-mixed")
    check = [check for check in load() if check.code == "PREC023"]
    (outcome,), _ = judge([record], check)
    (finding,) = outcome.findings
    assert finding.place.module == "first"


def test_what_the_optimizer_does_is_read_and_on_the_cpu_not_claimed():
    step, optimizer = scaled()
    record = examine(step, optimizers=[optimizer])
    assert record.facts["precision.optimizer"].source == "the parameters are on the CPU"


def test_a_trainer_is_read_from_its_module_and_never_imported():
    import sys

    class Trainer:
        precision = "bf16-mixed"

    net = nn.Linear(4, 4)
    net._trainer = Trainer()
    before = set(sys.modules)
    record = examine(lambda: net(torch.randn(2, 4)).sum().backward())
    assert record.facts["precision.trainer"].value == {"lightning": "bf16-mixed"}
    assert not {name for name in set(sys.modules) - before if "lightning" in name}


def test_the_compute_dtype_of_a_4_bit_layer_is_read():
    class Linear4bit(nn.Linear):
        compute_dtype = torch.float32

    net = Linear4bit(4, 4)
    record = examine(lambda: net(torch.randn(2, 4)).sum().backward())
    assert record.facts["precision.quantised"].value == {"Linear4bit": "f32"}
