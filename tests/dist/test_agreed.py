"""What `--strict=dist` takes for the group of a call, and for the same call."""

import pytest
import torch
import torch.distributed as dist

from reefwatch.gather.dist import agreed


@pytest.fixture
def world():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_a_group_is_found_by_name_and_by_place(world):
    tensor = torch.ones(2)
    assert agreed._group((tensor, dist.ReduceOp.SUM, world), {}) is world
    assert agreed._group((tensor,), {"group": world}) is world
    assert agreed._group((tensor, dist.ReduceOp.SUM), {"async_op": True}) is None


def test_what_differs_between_ranks_by_intent_is_not_in_the_signature(world):
    one, two = torch.ones(2), torch.ones(3)
    outs = [torch.ones(2), torch.ones(3)]
    root = agreed.signature(torch, "gather", (one, outs, 0), {})
    assert root == agreed.signature(torch, "gather", (one, None, 0), {})
    uneven = [agreed.signature(torch, "all_to_all_single", (one, t), {}) for t in (one, two)]
    assert uneven[0] == uneven[1]
    sums = [agreed.signature(torch, "all_reduce", (t, dist.ReduceOp.SUM), {}) for t in (one, two)]
    assert sums[0] != sums[1]
