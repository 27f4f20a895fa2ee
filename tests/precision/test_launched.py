"""The third layer: ops of the op layer and events of a profile, joined call by call."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.frames import Site
from reefwatch.gather.precision.examine import examine
from reefwatch.gather.precision.launched import Launches
from reefwatch.gather.precision.rows import Row
from reefwatch.gather.precision.slow import slow_cause


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
    step()  # the first update makes the optimizer's state
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


@pytest.mark.parametrize(
    ("kind", "name", "kernels", "slow"),
    [
        ("conv", "aten.convolution.default", ["naive_conv_ab_nonpacked_fwd"], "naive kernel"),
        ("matmul", "aten.mm.default", ["Cijk_Ailk_BBS_BH_MT64x64_ISA000_GRVW4"], "naive kernel"),
        ("conv", "aten.convolution.default", ["Im2d2Col_v2", "Cijk_MI16x16"], "kernel missing"),
        ("conv", "aten.slow_conv_dilated2d.default", ["vol2col"], "kernel missing"),
        ("conv", "aten._slow_conv2d_forward.default", ["gemm"], "library gate"),
        ("matmul", "aten.mm.default", ["Cijk_Ailk_BBS_BH_MT64x64_MI16x16x4x1_SE_K1"], ""),
        ("matmul", "aten.mm.default", ["Cijk_Ailk_SB_MT64x64_SE_K1"], "naive kernel"),
        ("conv", "aten.convolution.default", ["igemm_fwd_gtcx3_nhwc_bf16"], ""),
        ("other", "aten.copy_.default", ["im2col_like_copy"], ""),
    ],
)
def test_slow_by_name(kind, name, kernels, slow):
    assert slow_cause(Row(0, name, kind, None, Site()), kernels) == slow


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
