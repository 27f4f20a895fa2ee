"""Reefwatch's pytest fixtures on a small attention layer: `pytest examples/test_fixtures.py`."""

import math

import pytest

torch = pytest.importorskip("torch")


def attention(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def by_hand(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return torch.softmax(scores, -1) @ v


@pytest.fixture
def qkv():
    torch.manual_seed(0)
    return [torch.randn(1, 4, 32, 16, requires_grad=True) for _ in range(3)]


def test_attention_is_fused(no_fallback, qkv):
    no_fallback(attention, *qkv)


def test_attention_is_what_its_formula_says(matches_reference, qkv):
    out = matches_reference(attention, *qkv, reference=by_hand)
    assert out.shape == qkv[0].shape


def test_each_op_is_right_in_float64(matches_fp64, qkv):
    matches_fp64(by_hand, *qkv)


def test_compiled_it_gives_the_same(compiled_matches, qkv):
    compiled_matches(by_hand, *qkv, backend="aot_eager")
