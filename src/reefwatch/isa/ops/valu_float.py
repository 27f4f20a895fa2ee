"""Vector floating-point instructions. Minimum and maximum: the operand that is a number wins."""

from reefwatch.isa.table import TABLE

TABLE.lanes("""
v_add_f32       | f32      | f32 f32         | a + b
v_sub_f32       | f32      | f32 f32         | a - b
v_subrev_f32    | f32      | f32 f32         | b - a
v_mul_f32       | f32      | f32 f32         | a * b
v_mul_legacy_f32 | f32     | f32 f32         | where((a == 0) | (b == 0), f32(0), a * b)
v_mul_dx9_zero_f32 | f32   | f32 f32         | where((a == 0) | (b == 0), f32(0), a * b)
v_fma_f32       | f32      | f32 f32 f32     | fma32(a, b, c)
v_fmac_f32      | f32      | f32 f32         | fma32(a, b, d)
v_fmaak_f32     | f32      | f32 f32 f32     | fma32(a, b, c)
v_fmamk_f32     | f32      | f32 f32 f32     | fma32(a, b, c)
v_mac_f32       | f32      | f32 f32         | a * b + d
v_max_f32       | f32      | f32 f32         | fmax(a, b)
v_min_f32       | f32      | f32 f32         | fmin(a, b)
v_max3_f32      | f32      | f32 f32 f32     | fmax(fmax(a, b), c)
v_min3_f32      | f32      | f32 f32 f32     | fmin(fmin(a, b), c)
v_med3_f32      | f32      | f32 f32 f32     | fmiddle(a, b, c)
v_maxmin_f32    | f32      | f32 f32 f32     | fmin(fmax(a, b), c)
v_minmax_f32    | f32      | f32 f32 f32     | fmax(fmin(a, b), c)
v_maximum_f32   | f32      | f32 f32         | maximum(a, b)
v_minimum_f32   | f32      | f32 f32         | minimum(a, b)
v_maximum3_f32  | f32      | f32 f32 f32     | maximum(maximum(a, b), c)
v_minimum3_f32  | f32      | f32 f32 f32     | minimum(minimum(a, b), c)
v_rndne_f32     | f32      | f32             | rint(a)
v_trunc_f32     | f32      | f32             | trunc(a)
v_ceil_f32      | f32      | f32             | ceil(a)
v_floor_f32     | f32      | f32             | floor(a)
v_fract_f32     | f32      | f32             | fract(asarray(a))
v_ldexp_f32     | f32      | f32 i32         | ldexp(a, b)
v_frexp_exp_i32_f32 | i32  | f32             | frexp_exponent(a)
v_frexp_mant_f32 | f32     | f32             | frexp_mantissa(asarray(a))
v_div_scale_f32 | f32 mask | f32 f32 f32     | div_scale(a, b, c)[0] ; div_scale(a, b, c)[1]
v_div_fmas_f32  | f32      | f32 f32 f32     | div_fmas(a, b, c, vcc)
v_div_fixup_f32 | f32      | f32 f32 f32     | div_fixup(a, b, c)
v_sqrt_f32      | f32      | f32             | sqrt(a)
v_add_f16       | f16      | f16 f16         | a + b
v_sub_f16       | f16      | f16 f16         | a - b
v_subrev_f16    | f16      | f16 f16         | b - a
v_mul_f16       | f16      | f16 f16         | a * b
v_fma_f16       | f16      | f16 f16 f16     | fma16(a, b, c)
v_fmac_f16      | f16      | f16 f16         | fma16(a, b, d)
v_fmaak_f16     | f16      | f16 f16 f16     | fma16(a, b, c)
v_fmamk_f16     | f16      | f16 f16 f16     | fma16(a, b, c)
v_max_f16       | f16      | f16 f16         | fmax(a, b)
v_min_f16       | f16      | f16 f16         | fmin(a, b)
v_max3_f16      | f16      | f16 f16 f16     | fmax(fmax(a, b), c)
v_min3_f16      | f16      | f16 f16 f16     | fmin(fmin(a, b), c)
v_med3_f16      | f16      | f16 f16 f16     | fmiddle(a, b, c)
v_rndne_f16     | f16      | f16             | rint(a)
v_trunc_f16     | f16      | f16             | trunc(a)
v_ceil_f16      | f16      | f16             | ceil(a)
v_floor_f16     | f16      | f16             | floor(a)
v_fract_f16     | f16      | f16             | fract(asarray(a))
v_ldexp_f16     | f16      | f16 i16         | ldexp(a.astype(f64), b).astype(f16)
v_add_f64       | f64      | f64 f64         | a + b
v_mul_f64       | f64      | f64 f64         | a * b
v_fma_f64       | f64      | f64 f64 f64     | fma64(a, b, c)
v_fmac_f64      | f64      | f64 f64         | fma64(a, b, d)
v_max_f64       | f64      | f64 f64         | fmax(a, b)
v_min_f64       | f64      | f64 f64         | fmin(a, b)
v_rndne_f64     | f64      | f64             | rint(a)
v_trunc_f64     | f64      | f64             | trunc(a)
v_ceil_f64      | f64      | f64             | ceil(a)
v_floor_f64     | f64      | f64             | floor(a)
v_fract_f64     | f64      | f64             | fract(asarray(a))
v_ldexp_f64     | f64      | f64 i32         | ldexp(a, b)
""")

TABLE.lanes(
    """
v_exp_f32       | f32      | f32             | via64(exp2, a)
v_log_f32       | f32      | f32             | via64(log2, a)
v_rcp_f32       | f32      | f32             | rcp(a)
v_rcp_iflag_f32 | f32      | f32             | rcp(a)
v_rsq_f32       | f32      | f32             | rsq(a)
v_sin_f32       | f32      | f32             | sine(a)
v_cos_f32       | f32      | f32             | cosine(a)
v_exp_f16       | f16      | f16             | via64(exp2, a)
v_log_f16       | f16      | f16             | via64(log2, a)
v_rcp_f16       | f16      | f16             | rcp(a)
v_rsq_f16       | f16      | f16             | rsq(a)
v_sqrt_f16      | f16      | f16             | via64(sqrt, a)
v_sin_f16       | f16      | f16             | sine(a)
v_cos_f16       | f16      | f16             | cosine(a)
v_rcp_f64       | f64      | f64             | 1.0 / a
v_rsq_f64       | f64      | f64             | 1.0 / sqrt(a)
v_sqrt_f64      | f64      | f64             | sqrt(a)
""",
    approximate=True,
)
