"""Sketches of large tensors: what is read is what is told, on any layout."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from reefwatch.gather.numerics.sketch import Sketcher  # noqa: E402
from reefwatch.measure.sketches import READ, axis_of, positions, steps_of  # noqa: E402


def drawn(shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@given(st.lists(st.integers(1, 600), min_size=1, max_size=5))
def test_a_part_is_read_that_is_small_and_no_smaller_than_it_has_to_be(shape):
    axis = axis_of(shape)
    steps = steps_of(shape, axis)
    read = math.prod(-(-n // k) for n, k in zip(shape, steps, strict=True))
    assert axis is None or steps[axis] == 1
    others = [n for d, n in enumerate(shape) if d != axis]
    least = 1 if axis is None else shape[axis]
    assert read <= max(READ, least)
    if math.prod(shape) <= READ:
        assert steps == [1] * len(shape)
    elif math.prod(others) > 1:
        assert read >= min(least, READ) / 2 or read >= READ / 2 ** len(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(7,), (300_000,), (3, 5), (900, 300), (4, 24, 80, 70)])
def test_the_norm_is_that_of_all_elements(shape, dtype):
    tensor = drawn(shape, dtype)
    sketch = Sketcher(torch)(tensor)
    assert sketch["norm"] == pytest.approx(tensor.double().norm().item(), rel=1e-6)
    assert sketch["at"] == tensor.reshape(-1)[positions(tensor.numel())].double().tolist()
    assert sketch["bad"] == 0


@pytest.mark.parametrize("whole", [True, False])
def test_the_layout_in_memory_makes_no_difference(whole):
    plain = drawn((6, 40, 64, 48))
    odd = torch.empty(6, 40, 64, 96)[..., ::2]
    odd.copy_(plain)
    layouts = [plain, plain.to(memory_format=torch.channels_last), odd]
    sketcher = Sketcher(torch)
    one, *others = [sketcher.later(tensor, whole) for tensor in layouts]
    sketcher.fetch()
    for other in others:
        assert other["at"] == one["at"]
        assert other["norm"] == pytest.approx(one["norm"], rel=1e-6)
        assert other["slices"] == pytest.approx(one["slices"], rel=1e-6)


def test_one_channel_that_is_off_is_seen_in_its_slice_alone():
    tensor = drawn((64, 32, 56, 56), torch.bfloat16)
    wrong = tensor.clone()
    wrong[:, 7] *= 1.0625
    sketcher = Sketcher(torch)
    one, two = sketcher.later(tensor, False), sketcher.later(wrong, False)
    sketcher.fetch()
    off = [abs(b / a - 1) for a, b in zip(one["slices"], two["slices"], strict=True)]
    assert off[7] == pytest.approx(0.0625, abs=0.01)
    assert max(off[:7] + off[8:]) == 0


def test_the_share_that_was_read_is_told():
    sketcher = Sketcher(torch)
    sketcher.later(drawn((1000, 1000)), whole=False)
    sketcher.later(drawn((10, 10)))
    sketcher.fetch()
    told = sketcher.shares()
    assert 0.01 < told["slices"] == told["norms"] < 0.05


@pytest.mark.parametrize("where", [0, 123_456])
def test_what_is_not_finite_is_told_and_compared_with_nothing(where):
    tensor = drawn((400, 500))
    tensor.view(-1)[where] = math.nan
    sketch = Sketcher(torch)(tensor)
    assert sketch["bad"] > 0
    assert sketch["norm"] == 0.0
    assert sketch["slices"] == []


def test_odd_tensors_are_told_too():
    sketcher = Sketcher(torch)
    assert sketcher(torch.zeros(0, 3))["at"] == []
    assert sketcher(torch.tensor(3.0))["norm"] == 3.0
    assert sketcher(torch.ones(1).expand(100, 100))["norm"] == pytest.approx(100)
    assert sketcher(torch.arange(5))["norm"] == pytest.approx(math.sqrt(30))
    assert sketcher(torch.tensor([3 + 4j]))["norm"] == pytest.approx(5)
