"""Strict mode on what is slow rather than wide: attention without a kernel, eager frames, names."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from reefwatch.core.errors import Breach
from reefwatch.gather.precision.eager import Eager
from reefwatch.gather.precision.examine import examine
from reefwatch.judge.strict import Referee


def attend(keys, **more):
    q = torch.randn(1, 1, keys, 8)

    def step():
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with torch.autocast("cpu", torch.bfloat16), sdpa_kernel([SDPBackend.MATH]):
            F.scaled_dot_product_attention(q, q, q, **more)

    return examine(step, claim="bf16-mixed", referee=Referee(("precision",)))


def test_plain_attention_over_many_keys_raises_where_it_was_called():
    with pytest.raises(
        Breach, match=r"attention over 1100 keys ran without a fused kernel"
    ) as told:
        attend(1100)
    assert __file__ in str(told.value)


def test_over_few_keys_it_passes():
    attend(64)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"kind": "kernel", "naive": "yes", "name": "naive_conv_fwd"}, "a naive or generic kernel"),
        ({"kind": "kernel", "naive": "unknown", "name": "x"}, None),
        ({"kind": "blas", "why": "overriding blas backend"}, "the BLAS library was changed"),
        ({"kind": "compile", "what": "graph break", "why": "print"}, "went back to eager"),
    ],
)
def test_rows_of_other_instruments(row, words):
    told = Referee(("precision",)).breach("precision", row)
    assert told is None if words is None else words in told


def test_a_frame_given_up_is_told_once(monkeypatch):
    import sys
    import types

    module = types.ModuleType("torch._dynamo.utils")
    module.counters = {"graph_break": {"call to print": 2}}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module)
    eager = Eager()
    assert eager.gone() == {"kind": "compile", "what": "graph break", "why": "call to print"}
    assert eager.gone() is None
