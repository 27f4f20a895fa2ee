"""Autocast's lists, and the CUDA policy replayed on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from reefwatch.data import table
from reefwatch.gather.precision.examine import examine
from reefwatch.gather.precision.policy import cuda_lists, parse, registered, wide_ops
from reefwatch.gather.precision.replay import Kernels, Replay

X = torch.randn(2, 4, 8, 8)


@pytest.fixture
def replay():
    made = Replay(torch)
    made.put()
    yield made
    made.remove()


def test_the_shipped_table_is_what_the_header_of_that_release_says():
    shipped = table("autocast/cuda.toml")
    if torch.__version__.split("+")[0] != shipped["torch"]:
        pytest.skip("another release")
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    assert parse(header.read_text()) == {k: v for k, v in shipped.items() if k != "torch"}


def test_without_header_and_registry_the_shipped_table_is_taken(monkeypatch):
    monkeypatch.delattr(torch._C, "_dispatch_has_kernel_for_dispatch_key")
    monkeypatch.setattr("builtins.open", lambda *args, **kwargs: (_ for _ in ()).throw(OSError()))
    lists = cuda_lists(torch)
    assert lists.source.startswith("the lists of torch ")
    assert "aten::group_norm" in lists.f32


def test_a_header_without_the_macros_is_refused():
    with pytest.raises(ValueError, match="AT_FORALL_LOWER_PRECISION_FP"):
        parse("#define AT_NOTHING(_)")


def test_the_cpu_keeps_norms_in_16_bits_and_losses_not():
    wide = wide_ops(torch, "cpu")
    assert "aten::mse_loss" in wide
    assert "aten::group_norm" not in wide
    assert "aten::linear" not in wide


CALLS = {
    "group_norm": (lambda y: F.group_norm(y, 2), torch.float32),
    "layer_norm": (lambda y: F.layer_norm(y, (8,)), torch.float32),
    "softmax": (lambda y: F.softmax(y, -1), torch.float32),
    "softmax that was asked": (lambda y: F.softmax(y, -1, dtype=torch.bfloat16), torch.bfloat16),
    "sum": (lambda y: y.sum(), torch.float32),
    "norm": (lambda y: y.norm(), torch.float32),
    "pow": (lambda y: y**2, torch.float32),
    "interpolate": (lambda y: F.interpolate(y, scale_factor=2, mode="bilinear"), torch.float32),
    "batch_norm": (lambda y: F.batch_norm(y, torch.zeros(4), torch.ones(4)), torch.bfloat16),
    "cat": (lambda y: torch.cat((y, y)), torch.bfloat16),
    "mv": (lambda y: torch.mv(y[0, 0].float(), torch.ones(8)), torch.bfloat16),
    "float64": (lambda y: F.softmax(y.double(), -1), torch.float64),
}
"""Each call on a bf16 tensor, and its dtype under `torch.autocast("cuda", torch.bfloat16)`."""


@pytest.mark.parametrize("name", CALLS)
def test_the_replayed_policy_gives_cudas_dtypes(replay, name):
    assert replay.refused == []
    call, dtype = CALLS[name]
    with torch.autocast("cuda", torch.bfloat16):
        y = F.conv2d(X, torch.ones(4, 4, 1, 1))
        assert y.dtype is torch.bfloat16
        assert call(y).dtype is dtype


def test_afterwards_all_is_as_before():
    y = X.bfloat16()
    made = Replay(torch)
    made.put()
    made.remove()
    with torch.autocast("cpu", torch.bfloat16):
        assert F.group_norm(y, 2).dtype is torch.bfloat16
        assert F.mse_loss(y, y).dtype is torch.float32
    assert torch.autocast.__init__.__module__.startswith("torch")


def test_a_region_for_cuda_without_a_dtype_is_fp16(replay):
    with torch.autocast("cuda"):
        assert F.linear(X, torch.ones(4, 8)).dtype is torch.float16


def test_the_cause_is_the_policy_not_an_upcast_of_ours(replay):
    net = nn.Sequential(nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4), nn.SiLU())

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            net(X).mean().backward()

    record = examine(step, claim="bf16-mixed", replay=replay)
    told = [event.data for event in record.events if event.kind == "precision.op"]
    (norm,) = [row for row in told if row["op"].startswith("aten.native_group_norm.")]
    assert (norm["cause"], norm["module"]) == ("policy", "1")
    silu = next(row for row in told if row["op"].startswith("aten.silu."))
    assert silu["cause"] == "inherited"
    assert norm["file"] == nn.__file__.replace("nn/__init__.py", "nn/functional.py") or norm["file"]


def test_lifting_a_list_is_taken_back():
    kernels = Kernels(torch, "cpu")
    y = X.bfloat16()
    kernels.put([(name, torch.library.fallthrough_kernel) for name in wide_ops(torch, "cpu")])
    try:
        with torch.autocast("cpu", torch.bfloat16):
            assert F.mse_loss(y, y).dtype is torch.bfloat16
    finally:
        kernels.remove()
    with torch.autocast("cpu", torch.bfloat16):
        assert F.mse_loss(y, y).dtype is torch.float32


def test_no_registry_is_no_op(monkeypatch):
    monkeypatch.delattr(torch._C, "_dispatch_get_all_op_names")
    assert registered(torch, "cpu") == frozenset()
