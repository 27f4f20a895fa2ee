"""FSDP policies and accelerate's state, read as attributes of objects that look like theirs."""

from __future__ import annotations

import sys
import types
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from reefwatch.gather.frames import Modules
from reefwatch.gather.precision.updates import Asked, Updates

POLICY = SimpleNamespace(
    param_dtype=torch.bfloat16,
    reduce_dtype=torch.float32,
    output_dtype=None,
    buffer_dtype=None,
    cast_forward_inputs=True,
)


def asked_of(net):
    modules, asked = Modules(), Asked(torch)
    modules.add(net)
    asked.read(modules)
    return {name: fact.value for name, fact in asked.facts().items()}


def test_fsdp_of_the_first_kind():
    net = nn.Sequential(nn.Linear(2, 2))
    net[0].mixed_precision = POLICY
    told = asked_of(net)["precision.fsdp"]
    assert told["0"]["param_dtype"] == "bf16"
    assert told["0"]["reduce_dtype"] == "f32"


@pytest.mark.parametrize("group", [SimpleNamespace(mp_policy=POLICY), None])
def test_fsdp_of_the_second_kind(group):
    class Sharded(nn.Linear):
        def _get_fsdp_state(self):
            return SimpleNamespace(_fsdp_param_group=group)

    told = asked_of(nn.Sequential(Sharded(2, 2)))["precision.fsdp"]
    assert ({} if group is None else {"0"}) == (told if group is None else set(told))


def test_a_state_that_cannot_be_read_is_none():
    class Sharded(nn.Linear):
        def _get_fsdp_state(self):
            raise AssertionError("no state")

    assert asked_of(Sharded(2, 2))["precision.fsdp"] == {}


def test_accelerate(monkeypatch):
    module = types.ModuleType("accelerate.state")
    module.AcceleratorState = SimpleNamespace(_shared_state={"_mixed_precision": "bf16"})
    monkeypatch.setitem(sys.modules, "accelerate.state", module)
    assert asked_of(nn.Linear(2, 2))["precision.trainer"] == {"accelerate": "bf16"}


def test_updates_by_form_and_reading_a_step_count_is_none():
    updates = Updates()
    for name in ("aten._foreach_add_.List", "aten.mul_.Tensor", "aten._local_scalar_dense.default"):
        updates.count(name)
    parameter = SimpleNamespace(
        grad=None, device=SimpleNamespace(type="cuda"), dtype=torch.float32, layout=torch.strided
    )
    group = {"params": [parameter], "foreach": None, "fused": None, "lr": 1.0}
    updates.ended(SimpleNamespace(param_groups=[group]))
    (fact,) = updates.facts().values()
    assert fact.value["ops"] == {"foreach": 1.0, "loop": 1.0}
    held = fact.value["optimizers"]["SimpleNamespace"]
    assert held["asked"] == {"foreach": None, "fused": None}
    assert held["subclasses"] == 1
