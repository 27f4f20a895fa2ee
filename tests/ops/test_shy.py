"""Ops whose bits a mode would change are left alone where that can be known in time."""

from __future__ import annotations

import time

import torch

from reefwatch.gather.instrument import Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision.audit import PrecisionAudit
from reefwatch.gather.precision.examine import Memory, examine


def test_the_layer_leaves_before_the_backward_of_prod(rig):
    x = torch.randn(5, requires_grad=True)
    with rig:
        loss = x.prod()
        assert rig.layer.shy_backward
    assert any("aten.prod.default" in reason for reason in rig.layer.unseen)
    loss.backward()


def test_the_backward_of_prod_has_the_bits_of_an_unwatched_one():
    def gradient(watched):
        torch.manual_seed(3)
        x = torch.randn(7, 5, requires_grad=True)
        memory = Memory()
        tools = Tools(torch, memory, time.perf_counter, None, {"claim": "fp32"})
        audit = PrecisionAudit()
        audit.arm(tools)
        layer = OpLayer(tools, [audit])
        if watched:
            layer.enter(0)
        loss = x.prod(dim=0).sum()
        if watched:
            assert layer.open
            audit.before_backward(loss)  # as the watch calls it at Tensor.backward
            assert not layer.open
        loss.backward()
        layer.leave()
        audit.disarm()
        return x.grad.numpy().tobytes()

    assert gradient(True) == gradient(False)


def test_after_svdvals_no_step_is_examined_any_more(rig):
    with rig:
        torch.linalg.svdvals(torch.eye(3))
    told = len(rig.listener.calls)
    assert told
    with rig:
        torch.ones(2)
    assert len(rig.listener.calls) == told
    assert any(reason.startswith("later steps:") for reason in rig.layer.unseen)


def test_ordinary_steps_are_not_shy(rig):
    with rig:
        torch.nn.functional.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1, 2]))
    assert not rig.layer.shy_backward
    record = examine(lambda: torch.ones(2, 2) @ torch.ones(2, 2))
    assert record.facts["precision.ops"].value["unseen"] == []
