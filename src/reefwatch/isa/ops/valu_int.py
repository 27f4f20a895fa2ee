"""Vector integer and bit instructions."""

from reefwatch.isa.table import TABLE

TABLE.lanes("""
v_mov_b32            | b32      | b32             | a
v_mov_b64            | b64      | b64             | a
v_mov_b16            | b16      | b16             | a
v_not_b32            | u32      | u32             | ~a
v_not_b16            | u16      | u16             | ~a
v_and_b32            | u32      | u32 u32         | a & b
v_or_b32             | u32      | u32 u32         | a | b
v_xor_b32            | u32      | u32 u32         | a ^ b
v_xnor_b32           | u32      | u32 u32         | ~(a ^ b)
v_and_b16            | u16      | u16 u16         | a & b
v_or_b16             | u16      | u16 u16         | a | b
v_xor_b16            | u16      | u16 u16         | a ^ b
v_or3_b32            | u32      | u32 u32 u32     | a | b | c
v_xor3_b32           | u32      | u32 u32 u32     | a ^ b ^ c
v_and_or_b32         | u32      | u32 u32 u32     | (a & b) | c
v_bfi_b32            | u32      | u32 u32 u32     | (a & b) | (~a & c)
v_bfm_b32            | u32      | u32 u32         | shl((u32(1) << (a & u32(31))) - u32(1), b)
v_bfe_u32            | u32      | u32 u32 u32     | bfe_u32(a, b, c)
v_bfe_i32            | i32      | i32 u32 u32     | bfe_i32(a, b, c)
v_bfrev_b32          | u32      | u32             | reverse_bits(asarray(a))
v_bcnt_u32_b32       | u32      | u32 u32         | count_ones(a) + b
v_clz_i32_u32        | u32      | u32             | first_one_from_top(a)
v_cls_i32            | u32      | i32             | first_sign_change(a)
v_ctz_i32_b32        | u32      | u32             | first_one_from_bottom(a)
v_perm_b32           | u32      | u32 u32 u32     | perm(a, b, c)
v_alignbit_b32       | u32      | u32 u32 h32     | (pair(b, a) >> (c & u32(31)).astype(u64)).astype(u32)
v_alignbyte_b32      | u32      | u32 u32 h32     | (pair(b, a) >> ((c & u32(3)) * u32(8)).astype(u64)).astype(u32)
v_lshlrev_b32        | u32      | u32 u32         | b << (a & u32(31))
v_lshrrev_b32        | u32      | u32 u32         | b >> (a & u32(31))
v_ashrrev_i32        | i32      | u32 i32         | b >> (a & u32(31)).astype(i32)
v_lshlrev_b16        | u16      | u16 u16         | b << (a & u16(15))
v_lshrrev_b16        | u16      | u16 u16         | b >> (a & u16(15))
v_ashrrev_i16        | i16      | u16 i16         | b >> (a & u16(15)).astype(i16)
v_lshlrev_b64        | u64      | u32 u64         | b << (a & u32(63)).astype(u64)
v_lshrrev_b64        | u64      | u32 u64         | b >> (a & u32(63)).astype(u64)
v_ashrrev_i64        | i64      | u32 i64         | b >> (a & u32(63)).astype(i64)
v_lshl_or_b32        | u32      | u32 u32 u32     | (a << (b & u32(31))) | c
v_lshl_add_u32       | u32      | u32 u32 u32     | (a << (b & u32(31))) + c
v_add_lshl_u32       | u32      | u32 u32 u32     | (a + b) << (c & u32(31))
v_lshl_add_u64       | u64      | u64 u32 u64     | (a << (b & u32(7)).astype(u64)) + c
v_xad_u32            | u32      | u32 u32 u32     | (a ^ b) + c
v_add_nc_u32         | u32      | u32 u32         | a + b
v_sub_nc_u32         | u32      | u32 u32         | a - b
v_subrev_nc_u32      | u32      | u32 u32         | b - a
v_add_nc_u32+clamp   | u32      | u32 u32         | where(a + b < a, u32(0xffffffff), a + b)
v_sub_nc_u32+clamp   | u32      | u32 u32         | where(a < b, u32(0), a - b)
v_subrev_nc_u32+clamp | u32     | u32 u32         | where(b < a, u32(0), b - a)
v_add_nc_i32         | i32      | i32 i32         | a + b
v_sub_nc_i32         | i32      | i32 i32         | a - b
v_add_nc_i32+clamp   | i32      | i32 i32         | saturate(a.astype(i64) + b, -2**31, 2**31 - 1, i32)
v_sub_nc_i32+clamp   | i32      | i32 i32         | saturate(a.astype(i64) - b, -2**31, 2**31 - 1, i32)
v_add3_u32           | u32      | u32 u32 u32     | a + b + c
v_add_nc_u64         | u64      | u64 u64         | a + b
v_sub_nc_u64         | u64      | u64 u64         | a - b
v_add_nc_u16         | u16      | u16 u16         | a + b
v_sub_nc_u16         | u16      | u16 u16         | a - b
v_subrev_nc_u16      | u16      | u16 u16         | b - a
v_add_nc_i16         | i16      | i16 i16         | a + b
v_sub_nc_i16         | i16      | i16 i16         | a - b
v_add_co_u32         | u32 mask | u32 u32         | a + b ; a + b < a
v_sub_co_u32         | u32 mask | u32 u32         | a - b ; a < b
v_subrev_co_u32      | u32 mask | u32 u32         | b - a ; b < a
v_add_co_ci_u32      | u32 mask | u32 u32 mask    | a + b + c ; (a + b < a) | ((a + b == u32(0xffffffff)) & c)
v_sub_co_ci_u32      | u32 mask | u32 u32 mask    | a - b - c ; (a < b) | ((a == b) & c)
v_subrev_co_ci_u32   | u32 mask | u32 u32 mask    | b - a - c ; (b < a) | ((a == b) & c)
v_mul_lo_u32         | u32      | u32 u32         | a * b
v_mul_hi_u32         | u32      | u32 u32         | ((a.astype(u64) * b) >> u64(32)).astype(u32)
v_mul_hi_i32         | i32      | i32 i32         | ((a.astype(i64) * b) >> i64(32)).astype(i32)
v_mul_lo_u16         | u16      | u16 u16         | a * b
v_mul_u32_u24        | u32      | u32 u32         | (a & u32(0xffffff)) * (b & u32(0xffffff))
v_mul_i32_i24        | i32      | i32 i32         | ((a << i32(8)) >> i32(8)) * ((b << i32(8)) >> i32(8))
v_mul_hi_u32_u24     | u32      | u32 u32         | (((a & u32(0xffffff)).astype(u64) * (b & u32(0xffffff))) >> u64(32)).astype(u32)
v_mad_u32_u24        | u32      | u32 u32 u32     | (a & u32(0xffffff)) * (b & u32(0xffffff)) + c
v_mad_i32_i24        | i32      | i32 i32 i32     | ((a << i32(8)) >> i32(8)) * ((b << i32(8)) >> i32(8)) + c
v_mad_u16            | u16      | u16 u16 u16     | a * b + c
v_mad_i16            | i16      | i16 i16 i16     | a * b + c
v_mad_u32_u16        | u32      | u16 u16 u32     | a.astype(u32) * b + c
v_mad_i32_i16        | i32      | i16 i16 i32     | a.astype(i32) * b + c
v_mad_u64_u32        | u64 mask | u32 u32 u64     | a.astype(u64) * b + c ; a.astype(u64) * b + c < c
v_mad_i64_i32        | i64 mask | i32 i32 i64     | a.astype(i64) * b + c ; carries_i64(a.astype(i64) * b, c)
v_max_i32            | i32      | i32 i32         | maximum(a, b)
v_min_i32            | i32      | i32 i32         | minimum(a, b)
v_max_u32            | u32      | u32 u32         | maximum(a, b)
v_min_u32            | u32      | u32 u32         | minimum(a, b)
v_max_i16            | i16      | i16 i16         | maximum(a, b)
v_min_i16            | i16      | i16 i16         | minimum(a, b)
v_max_u16            | u16      | u16 u16         | maximum(a, b)
v_min_u16            | u16      | u16 u16         | minimum(a, b)
v_max3_i32           | i32      | i32 i32 i32     | maximum(maximum(a, b), c)
v_min3_i32           | i32      | i32 i32 i32     | minimum(minimum(a, b), c)
v_max3_u32           | u32      | u32 u32 u32     | maximum(maximum(a, b), c)
v_min3_u32           | u32      | u32 u32 u32     | minimum(minimum(a, b), c)
v_med3_i32           | i32      | i32 i32 i32     | middle(a, b, c)
v_med3_u32           | u32      | u32 u32 u32     | middle(a, b, c)
v_maxmin_i32         | i32      | i32 i32 i32     | minimum(maximum(a, b), c)
v_minmax_i32         | i32      | i32 i32 i32     | maximum(minimum(a, b), c)
v_maxmin_u32         | u32      | u32 u32 u32     | minimum(maximum(a, b), c)
v_minmax_u32         | u32      | u32 u32 u32     | maximum(minimum(a, b), c)
v_sad_u32            | u32      | u32 u32 u32     | maximum(a, b) - minimum(a, b) + c
v_cndmask_b32        | b32      | b32 b32 mask    | where(c, b, a)
v_cndmask_b16        | b16      | b16 b16 mask    | where(c, b, a)
v_pack_b32_f16       | u32      | b16 b16         | asarray(a).astype(u32) | (asarray(b).astype(u32) << u32(16))
v_dot4_u32_u8        | u32      | u32 u32 u32     | dot_bytes(a, b, u8, u8).astype(u32) + c
v_dot4_i32_i8        | i32      | u32 u32 i32     | dot_bytes(a, b, i8, i8).astype(i32) + c
""")  # noqa: E501
