"""A group that a refused call has left collecting."""

import pytest
import torch
import torch.distributed as dist

from reefwatch.experiments.dist import afterwards
from reefwatch.experiments.dist.steps import Bench


@pytest.fixture
def bench():
    store = dist.HashStore()
    dist.init_process_group("gloo", store=dist.PrefixStore("pg", store), rank=0, world_size=1)
    yield Bench(torch, "cpu", 0, 1, "gloo", "quick", store, 1, {}, {(): None})
    dist.destroy_process_group()


def test_a_group_that_is_well_is_left_alone(bench):
    assert afterwards.left(bench, "1", ()) == ""


def test_a_group_that_collects_is_seen_and_put_right(bench):
    with (
        pytest.raises(RuntimeError),
        dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True),
    ):
        dist.all_reduce(torch.ones(2))
    assert afterwards.left(bench, "1", ()) == afterwards.COLLECTING
    assert afterwards.left(bench, "2", ()) == ""


def test_sums_that_stay_wrong_are_told(bench, monkeypatch):
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, **more: tensor.zero_())
    assert afterwards.left(bench, "1", ()) == afterwards.LOST
