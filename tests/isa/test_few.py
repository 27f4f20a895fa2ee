"""The few lane and scalar rows that no table of references covers."""

from __future__ import annotations

import numpy as np
import pytest

from reefwatch.isa import blocks  # noqa: F401 - declares the instructions
from tests.isa.one import fresh, get, put, run

VALUES = np.array([0.0, -0.0, 0.75, -2.25, 6.5, -6.5, 1e-40, 3.4e38, np.inf, -np.inf, np.nan, 1.0],
                  np.float32)  # fmt: skip


def f32(text: str, *columns) -> np.ndarray:
    """The f32 result of `text`, which writes v2 from v8, v10 and v12."""
    st = fresh()
    for n, column in enumerate(columns):
        column = np.asarray(column)
        bits = column.view(np.uint32) if column.dtype == np.float32 else column.astype(np.int64)
        put(st, 8 + 2 * n, bits & 0xFFFFFFFF)
    run(st, text)
    return np.array(get(st, 2)[: len(columns[0])], np.uint32).view(np.float32)


def test_products_where_zero_wins() -> None:
    zeros = np.zeros(12, np.float32)
    assert f32("v_mul_dx9_zero_f32_e32 v2, v8, v10", VALUES, zeros).tolist() == [0.0] * 12


def test_middle_of_three() -> None:
    a, b, c = (np.float32([x]) for x in (3.0, -1.0, 2.0))
    assert f32("v_med3_f32 v2, v8, v10, v12", a, b, c) == 2.0
    assert f32("v_med3_f32 v2, v8, v10, v12", np.float32([np.nan]), b, c) == -1.0


def test_maximum_of_ieee_2019_hands_nan_on() -> None:
    got = f32("v_maximum_f32 v2, v8, v10", VALUES, np.float32([2.0] * 12))
    assert np.isnan(got[10]) and got[8] == np.inf and got[0] == 2.0
    got = f32("v_minimum3_f32 v2, v8, v10, v12", VALUES, VALUES, np.float32([2.0] * 12))
    assert np.isnan(got[10]) and got[9] == -np.inf and got[7] == 2.0


def test_fract_stays_below_one() -> None:
    got = f32("v_fract_f32_e32 v2, v8", np.float32([0.75, -2.25, -1e-9, 5.0]))
    assert got.tolist() == [0.75, 0.75, float(np.nextafter(np.float32(1), np.float32(0))), 0.0]


@pytest.mark.parametrize("by", [-200, -150, -1, 0, 5, 127, 300])
def test_ldexp(by: int) -> None:
    got = f32("v_ldexp_f32 v2, v8, v10", VALUES, np.full(12, by))
    with np.errstate(all="ignore"):
        wanted = (VALUES.astype(np.float64) * 2.0**by).astype(np.float32)
    assert np.array_equal(got, wanted, equal_nan=True)


def test_frexp_parts_multiply_to_the_value() -> None:
    finite = VALUES[np.isfinite(VALUES)]
    mantissa = f32("v_frexp_mant_f32_e32 v2, v8", finite).astype(np.float64)
    exponent = f32("v_frexp_exp_i32_f32_e32 v2, v8", finite).view(np.int32)
    assert np.array_equal(mantissa * 2.0**exponent, finite.astype(np.float64))
    assert ((np.abs(mantissa) >= 0.5) & (np.abs(mantissa) < 1) | (finite == 0)).all()


def test_normalised_and_nearest_integers() -> None:
    a, b = np.float32([1.0, -1.0, 0.5, 7.0]), np.float32([0.0, -7.0, np.nan, 1.0])
    packed = f32("v_cvt_pk_norm_i16_f32 v2, v8, v10", a, b).view(np.int16).reshape(-1, 2)
    assert packed.tolist() == [[32767, 0], [-32767, -32767], [16384, 0], [32767, 32767]]
    nearest = f32("v_cvt_nearest_i32_f32_e32 v2, v8", np.float32([0.5, 1.5, -0.5, -1.6, 2.4]))
    assert nearest.view(np.int32).tolist() == [1, 2, 0, -2, 2]


def test_scalar_bits_and_differences() -> None:
    st = fresh()
    st.S[2][...], st.S[3][...] = 0b1010, 1
    run(st, "s_bitset0_b32 s2, s3\ns_bitset1_b32 s2, 2\ns_absdiff_i32 s4, 3, 10")
    assert int(st.S[2][0]) == 0b1100 and int(st.S[4][0]) == 7 and st.scc[0]
    run(st, "s_cls_i32 s5, s4\ns_cmov_b32 s6, s4")
    assert int(st.S[5][0]) == 29 and int(st.S[6][0]) == 7
