"""As a mode, the layer leaves ops alone whose bits it would change, where that is known in time."""

from __future__ import annotations

import torch

from reefwatch.gather.precision.examine import examine


def test_the_layer_leaves_before_the_backward_of_prod(mode_rig):
    x = torch.randn(5, requires_grad=True)
    with mode_rig:
        loss = x.prod()
        assert mode_rig.layer.shy_backward
    assert any("aten.prod.default" in reason for reason in mode_rig.layer.unseen)
    loss.backward()


def test_after_svdvals_no_step_is_examined_any_more(mode_rig):
    with mode_rig:
        torch.linalg.svdvals(torch.eye(3))
    told = len(mode_rig.listener.calls)
    assert told
    with mode_rig:
        torch.ones(2)
    assert len(mode_rig.listener.calls) == told
    assert any(reason.startswith("later steps:") for reason in mode_rig.layer.unseen)


def test_ordinary_steps_are_not_shy(mode_rig):
    with mode_rig:
        torch.nn.functional.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1, 2]))
    assert not mode_rig.layer.shy_backward
    record = examine(lambda: torch.ones(2, 2) @ torch.ones(2, 2))
    assert record.facts["precision.ops"].value["unseen"] == []
