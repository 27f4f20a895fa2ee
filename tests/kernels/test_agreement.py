"""When two results of one kernel agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefwatch.measure.agreement import agree, coarsest

RNG = np.random.default_rng(4)
VALUES = RNG.standard_normal(500)


def test_the_coarsest_dtype_counts() -> None:
    assert coarsest(["f32", "bf16", "i32"]) == "bf16"
    assert coarsest(["i32"]) == ""


@pytest.mark.parametrize(("dtype", "eps"), [("f32", 2**-23), ("bf16", 2**-7), ("f16", 2**-10)])
def test_one_ulp_agrees_and_a_hundred_do_not(dtype: str, eps: float) -> None:
    assert agree(np, VALUES * (1 + eps), VALUES, dtype).agrees
    odd = VALUES.copy()
    at = int(np.argmax(np.abs(odd)))
    odd[at] *= 1 + 200 * eps
    told = agree(np, odd, VALUES, dtype)
    assert not told.agrees
    assert (told.index, told.different) == (at, 1)


def test_a_value_that_cancels_is_held_against_its_tensor() -> None:
    small = VALUES.copy()
    small[3] = 1e-9
    near = small.copy()
    near[3] = 1e-7
    assert agree(np, near, small, "f32").agrees


def test_nan_is_equal_to_nan_alone() -> None:
    one, other = VALUES.copy(), VALUES.copy()
    one[0] = other[0] = np.nan
    one[1] = other[1] = np.inf
    assert agree(np, one, other, "f32").agrees
    other[0] = 1.0
    assert not agree(np, one, other, "f32").agrees


def test_integers_agree_exactly() -> None:
    ints = np.arange(10)
    assert agree(np, ints, ints.copy(), "f32").agrees
    off = ints.copy()
    off[2] += 1
    assert agree(np, off, ints, "f32").different == 1


def test_movement_explains_as_much_as_it_is() -> None:
    moved = np.zeros(500)
    moved[7] = 0.5
    far = VALUES.copy()
    far[7] += 1.0
    assert agree(np, far, VALUES, "f32", moved).agrees
    far[7] += 10.0
    assert not agree(np, far, VALUES, "f32", moved).agrees


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=30))
def test_a_result_agrees_with_itself(values: list[float]) -> None:
    array = np.array(values)
    told = agree(np, array, array.copy(), "f32")
    assert told.agrees and told.worst == 0


def test_nothing_written_agrees() -> None:
    assert agree(np, np.zeros(0), np.zeros(0), "f32").agrees
