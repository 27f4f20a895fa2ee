"""Ops whose bits a mode would change are left alone where that can be known in time."""

from __future__ import annotations

import torch

from reefwatch.gather.precision.examine import examine


def test_the_layer_leaves_before_the_backward_of_prod(rig):
    x = torch.randn(5, requires_grad=True)
    with rig:
        loss = x.prod()
        assert rig.layer.shy_backward
    assert any("aten.prod.default" in reason for reason in rig.layer.unseen)
    loss.backward()


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
