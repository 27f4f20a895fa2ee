"""Bounds of rounding: held by correct results, passed by wrong ones."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefwatch.measure.rounding import UNIT, growth, last_place, product_bound
from reefwatch.measure.slices import worst_slope


@given(st.integers(1, 2000), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_a_float32_dot_product_keeps_to_its_bound(length, seed):
    r = numpy.random.RandomState(seed)
    a, b = (r.randn(4, length).astype("f4"), r.randn(length, 3).astype("f4"))
    wide_a, wide_b = a.astype(float), b.astype(float)
    truth = wide_a @ wide_b
    bound = product_bound(
        numpy, truth, abs(wide_a) @ abs(wide_b), length, accumulate="f32", result="f32", sure=8.0
    )
    naive = numpy.zeros((4, 3), "f4")
    for k in range(length):  # one after the other: the worst order
        naive += a[:, k : k + 1] * b[k : k + 1]
    assert (abs(naive - truth) <= bound).all()
    assert (abs((a @ b) - truth) <= bound).all()


@pytest.mark.parametrize("length", [64, 512, 4096])
def test_accumulating_in_float16_leaves_the_bound_of_float32(length):
    r = numpy.random.RandomState(length)
    a, b = r.randn(8, length).astype("f2"), r.randn(length, 8).astype("f2")
    total = numpy.zeros((8, 8), "f2")
    for k in range(length):
        total += a[:, k : k + 1] * b[k : k + 1]
    wide_a, wide_b = a.astype(float), b.astype(float)
    truth, absolute = wide_a @ wide_b, abs(wide_a) @ abs(wide_b)
    bound = product_bound(numpy, truth, absolute, length, accumulate="f32", result="f16", sure=8.0)
    assert (abs(total - truth) > bound).any()


def test_growth_is_the_lesser_of_both_bounds():
    assert growth(4, "f32", 8.0) == pytest.approx(4 * UNIT["f32"], rel=1e-5)
    assert growth(10**6, "f32", 8.0) == pytest.approx(8e3 * UNIT["f32"], rel=1e-2)
    assert growth(10**6, "f16", 8.0) > 8e3 * UNIT["f16"]  # of second order too


@given(st.floats(-1e30, 1e30))
def test_rounding_once_keeps_to_the_last_place(value):
    rounded = float(numpy.float32(value))
    assert abs(rounded - value) <= last_place(numpy, numpy.float64(value), "f32")


def test_one_channel_off_by_a_percent_stands_out_though_each_element_is_allowed():
    r = numpy.random.RandomState(0)
    truth = r.randn(256, 512)
    allowed = abs(truth) * 2**-6
    result = truth + allowed * r.uniform(-1, 1, truth.shape) * 0.5
    healthy = worst_slope(numpy, result, truth, allowed)
    assert healthy.deviations < 8
    result[77] *= 1.01
    assert (abs(result - truth) <= allowed).mean() > 0.9
    worst = worst_slope(numpy, result, truth, allowed)
    assert worst.index == 77
    assert worst.deviations > 8
    assert worst.slope == pytest.approx(1.01, abs=2e-3)


def test_a_slice_of_zeros_has_no_slope():
    zeros = numpy.zeros((3, 5))
    assert worst_slope(numpy, zeros, zeros, zeros).deviations == 0
