"""Strict mode on what is slow rather than wide: attention without a kernel, eager frames, names."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from reefwatch.core.errors import Breach
from reefwatch.gather.instrument import Tools
from reefwatch.gather.precision.eager import Eager
from reefwatch.gather.precision.examine import Memory, examine
from reefwatch.gather.precision.gates import Gates, stepped_back
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


@pytest.mark.parametrize(
    ("first", "last", "asked", "warnings", "words"),
    [
        ("cublaslt", "cublas", "", [], "cublaslt became cublas"),
        ("cublas", "cublas", "cublaslt", [], "cublaslt was asked for"),
        ("cublas", "cublas", "", ["Overriding blas backend to hipblas"], "Overriding"),
        ("cublas", "cublas", "", ["MIOpen is slow"], ""),
        ("cublaslt", "cublaslt", "cublaslt", [], ""),
    ],
)
def test_a_blas_library_that_torch_stepped_back_from(first, last, asked, warnings, words):
    told = stepped_back({"first": first, "last": last}, asked, warnings)
    assert words in told
    assert bool(told) == bool(words)


def test_it_is_raised_once_after_an_examined_step(monkeypatch):
    gates = Gates()
    monkeypatch.setenv("TORCH_BLAS_PREFER_HIPBLASLT", "1")
    gates.arm(Tools(torch, Memory(), lambda: 0.0, Referee(("precision",)), {}))
    gates.on_step(0, 0.1, True)  # no product on a GPU was seen
    gates._blas = {"first": "cublas", "last": "cublas"}
    gates.on_step(1, 0.1, False)
    with pytest.raises(Breach, match="the BLAS library was changed by torch: cublaslt was asked"):
        gates.on_step(2, 0.1, True)
    gates.on_step(3, 0.1, True)
