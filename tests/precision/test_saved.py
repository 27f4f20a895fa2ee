"""Saved-for-backward bytes against the truth of saved_tensors_hooks (docs/decisions/0002)."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from reefwatch.gather.dtypes import short
from reefwatch.gather.precision.examine import examine


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, recompute=False):
        super().__init__()
        self.recompute = recompute
        make = lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)  # noqa: E731
        self.layers = nn.ModuleList(make() for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return x


MODELS = {
    "cnn": (Conv, (4, 3, 12, 12)),
    "transformer": (Attention, (2, 6, 16)),
    "checkpointing": (lambda: Attention(True), (2, 6, 16)),
}


def truth(model, forward):
    """{dtype: bytes} of the unique storages that autograd saves, and those storages' tensors."""
    skip = {p.untyped_storage()._cdata for p in model.parameters()}
    kept, total = {}, {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in skip and storage._cdata not in kept:
            kept[storage._cdata] = tensor
            dtype = short(tensor.dtype)
            total[dtype] = total.get(dtype, 0) + storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = forward()
    return total, kept, loss


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, None])
def test_equals_the_hooks_but_for_inputs_and_the_loss(name, dtype):
    torch.manual_seed(0)
    build, shape = MODELS[name]
    model, x = build(), torch.randn(shape)

    def forward():
        with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            return model(x).float().pow(2).mean()

    wanted, kept, _ = truth(model, forward)
    if x.untyped_storage()._cdata in kept:  # made before the step, and alive with or without it
        wanted["f32"] -= x.nbytes
    record = examine(lambda: forward().backward())
    got = dict(record.facts["precision.saved"].value)
    # alive and not saved: the loss, and the one that its gradient begins with
    got["f32"] -= 8
    assert {d: n for d, n in got.items() if n} == {d: n for d, n in wanted.items() if n}


def test_no_memory_is_kept():
    import weakref

    gone = []

    def step():
        x = torch.randn(100, 100, requires_grad=True)
        y = (x @ x).relu()
        gone.append(weakref.ref(y))
        del y
        assert gone[-1]() is None

    examine(step)
