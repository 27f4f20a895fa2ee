"""Scalar instructions: one value per wave, and the condition code SCC.

`r` in the second expression is the first result.
"""

from reefwatch.isa.emit import Emitter, Refused
from reefwatch.isa.table import TABLE
from reefwatch.isa.text import EXEC, Operand

TABLE.scalars("""
s_mov_b32         | u32     | u32         | a
s_mov_b64         | u64     | u64         | a
s_movk_i32        | i32     | i32         | sext16(a)
s_cmov_b32        | u32     | u32         | where(st.scc, a, d)
s_not_b32         | u32 scc | u32         | ~a ; r != 0
s_not_b64         | u64 scc | u64         | ~a ; r != 0
s_brev_b32        | u32     | u32         | reverse_bits(a)
s_brev_b64        | u64     | u64         | reverse_bits(a)
s_bcnt1_i32_b32   | u32 scc | u32         | count_ones(a) ; r != 0
s_bcnt1_i32_b64   | u32 scc | u64         | count_ones(a) ; r != 0
s_bcnt0_i32_b32   | u32 scc | u32         | count_ones(~a) ; r != 0
s_ctz_i32_b32     | u32     | u32         | first_one_from_bottom(a)
s_ctz_i32_b64     | u32     | u64         | first_one_from_bottom(a)
s_clz_i32_u32     | u32     | u32         | first_one_from_top(a)
s_clz_i32_u64     | u32     | u64         | first_one_from_top(a)
s_cls_i32         | u32     | i32         | first_sign_change(a)
s_sext_i32_i8     | i32     | u32         | a.astype(u8).view(i8).astype(i32)
s_sext_i32_i16    | i32     | u32         | a.astype(u16).view(i16).astype(i32)
s_abs_i32         | i32 scc | i32         | abs(a) ; r != 0
s_bitset0_b32     | u32     | u32         | d & ~shl(u32(1), a)
s_bitset1_b32     | u32     | u32         | d | shl(u32(1), a)
s_and_b32         | u32 scc | u32 u32     | a & b ; r != 0
s_and_b64         | u64 scc | u64 u64     | a & b ; r != 0
s_or_b32          | u32 scc | u32 u32     | a | b ; r != 0
s_or_b64          | u64 scc | u64 u64     | a | b ; r != 0
s_xor_b32         | u32 scc | u32 u32     | a ^ b ; r != 0
s_xor_b64         | u64 scc | u64 u64     | a ^ b ; r != 0
s_nand_b32        | u32 scc | u32 u32     | ~(a & b) ; r != 0
s_nand_b64        | u64 scc | u64 u64     | ~(a & b) ; r != 0
s_nor_b32         | u32 scc | u32 u32     | ~(a | b) ; r != 0
s_nor_b64         | u64 scc | u64 u64     | ~(a | b) ; r != 0
s_xnor_b32        | u32 scc | u32 u32     | ~(a ^ b) ; r != 0
s_xnor_b64        | u64 scc | u64 u64     | ~(a ^ b) ; r != 0
s_and_not1_b32    | u32 scc | u32 u32     | a & ~b ; r != 0
s_and_not1_b64    | u64 scc | u64 u64     | a & ~b ; r != 0
s_or_not1_b32     | u32 scc | u32 u32     | a | ~b ; r != 0
s_or_not1_b64     | u64 scc | u64 u64     | a | ~b ; r != 0
s_lshl_b32        | u32 scc | u32 u32     | shl(a, b) ; r != 0
s_lshl_b64        | u64 scc | u64 u32     | shl(a, b) ; r != 0
s_lshr_b32        | u32 scc | u32 u32     | shr(a, b) ; r != 0
s_lshr_b64        | u64 scc | u64 u32     | shr(a, b) ; r != 0
s_ashr_i32        | i32 scc | i32 u32     | shr(a, b) ; r != 0
s_ashr_i64        | i64 scc | i64 u32     | shr(a, b) ; r != 0
s_bfm_b32         | u32     | u32 u32     | shl((u32(1) << (a & u32(31))) - u32(1), b)
s_bfe_u32         | u32 scc | u32 u32     | scalar_field(a, b) ; r != 0
s_bfe_i32         | i32 scc | i32 u32     | scalar_field(a, b) ; r != 0
s_bfe_u64         | u64 scc | u64 u32     | scalar_field(a, b) ; r != 0
s_bfe_i64         | i64 scc | i64 u32     | scalar_field(a, b) ; r != 0
s_add_u32         | u32 scc | u32 u32     | a + b ; r < a
s_sub_u32         | u32 scc | u32 u32     | a - b ; a < b
s_addc_u32        | u32 scc | u32 u32     | a + b + st.scc ; (a + b < a) | ((a + b == u32(0xffffffff)) & st.scc)
s_subb_u32        | u32 scc | u32 u32     | a - b - st.scc ; (a < b) | ((a == b) & st.scc)
s_add_i32         | i32 scc | i32 i32     | a + b ; ((a ^ r) & (b ^ r)) < 0
s_sub_i32         | i32 scc | i32 i32     | a - b ; ((a ^ b) & (a ^ r)) < 0
s_addk_i32        | i32 scc | i32         | d + sext16(a) ; ((d ^ r) & (sext16(a) ^ r)) < 0
s_mulk_i32        | i32     | i32         | d * sext16(a)
s_mul_i32         | u32     | u32 u32     | a * b
s_mul_hi_u32      | u32     | u32 u32     | ((a.astype(u64) * b) >> u64(32)).astype(u32)
s_mul_hi_i32      | i32     | i32 i32     | ((a.astype(i64) * b) >> i64(32)).astype(i32)
s_mul_u64         | u64     | u64 u64     | a * b
s_add_nc_u64      | u64     | u64 u64     | a + b
s_sub_nc_u64      | u64     | u64 u64     | a - b
s_lshl1_add_u32   | u32 scc | u32 u32     | (a << u32(1)) + b ; (a.astype(u64) * u64(2) + b) > u64(0xffffffff)
s_lshl2_add_u32   | u32 scc | u32 u32     | (a << u32(2)) + b ; (a.astype(u64) * u64(4) + b) > u64(0xffffffff)
s_lshl3_add_u32   | u32 scc | u32 u32     | (a << u32(3)) + b ; (a.astype(u64) * u64(8) + b) > u64(0xffffffff)
s_lshl4_add_u32   | u32 scc | u32 u32     | (a << u32(4)) + b ; (a.astype(u64) * u64(16) + b) > u64(0xffffffff)
s_min_i32         | i32 scc | i32 i32     | minimum(a, b) ; a < b
s_max_i32         | i32 scc | i32 i32     | maximum(a, b) ; a > b
s_min_u32         | u32 scc | u32 u32     | minimum(a, b) ; a < b
s_max_u32         | u32 scc | u32 u32     | maximum(a, b) ; a > b
s_absdiff_i32     | i32 scc | i32 i32     | abs(a - b) ; r != 0
s_cselect_b32     | u32     | u32 u32     | where(st.scc, a, b)
s_cselect_b64     | u64     | u64 u64     | where(st.scc, a, b)
s_bitcmp0_b32     | scc     | u32 u32     | (shr(a, b) & u32(1)) == 0
s_bitcmp1_b32     | scc     | u32 u32     | (shr(a, b) & u32(1)) != 0
s_bitcmp0_b64     | scc     | u64 u32     | (shr(a, b) & u64(1)) == 0
s_bitcmp1_b64     | scc     | u64 u32     | (shr(a, b) & u64(1)) != 0
s_pack_ll_b32_b16 | u32     | u32 u32     | (a & u32(0xffff)) | (b << u32(16))
s_pack_lh_b32_b16 | u32     | u32 u32     | (a & u32(0xffff)) | (b & u32(0xffff0000))
s_pack_hh_b32_b16 | u32     | u32 u32     | (a >> u32(16)) | (b & u32(0xffff0000))
s_pack_hl_b32_b16 | u32     | u32 u32     | (a >> u32(16)) | (b << u32(16))
s_add_f32         | f32     | f32 f32     | a + b
s_sub_f32         | f32     | f32 f32     | a - b
s_mul_f32         | f32     | f32 f32     | a * b
s_fmac_f32        | f32     | f32 f32     | fma32(a, b, d)
s_fmaak_f32       | f32     | f32 f32 f32 | fma32(a, b, c)
s_fmamk_f32       | f32     | f32 f32 f32 | fma32(a, b, c)
s_max_f32         | f32     | f32 f32     | fmax(a, b)
s_min_f32         | f32     | f32 f32     | fmin(a, b)
s_rndne_f32       | f32     | f32         | rint(a)
s_trunc_f32       | f32     | f32         | trunc(a)
s_floor_f32       | f32     | f32         | floor(a)
s_ceil_f32        | f32     | f32         | ceil(a)
s_cvt_f32_i32     | f32     | i32         | a.astype(f32)
s_cvt_f32_u32     | f32     | u32         | a.astype(f32)
s_cvt_i32_f32     | i32     | f32         | to_int(a, -2**31, 2**31 - 1, i32)
s_cvt_u32_f32     | u32     | f32         | to_int(a, 0, 2**32 - 1, u32)
v_s_log_f32       | f32     | f32         | via64(log2, a)
v_s_exp_f32       | f32     | f32         | via64(exp2, a)
v_s_rcp_f32       | f32     | f32         | rcp(a)
v_s_rsq_f32       | f32     | f32         | rsq(a)
v_s_sqrt_f32      | f32     | f32         | sqrt(a)
""")  # noqa: E501

_CONDITIONS = {"eq": "==", "lg": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
TABLE.scalars(
    "\n".join(
        [
            f"s_cmp_{name}_{kind} | scc | {kind} {kind} | a {sign} b"
            for name, sign in _CONDITIONS.items()
            for kind in ("i32", "u32", "u64", "f32")
        ]
        + [
            f"s_cmp_n{name}_f32 | scc | f32 f32 | ~(a {sign} b)"
            for name, sign in _CONDITIONS.items()
            if name not in ("eq", "lg")
        ]
        + [
            "s_cmp_neq_f32 | scc | f32 f32 | a != b",
            "s_cmp_o_f32 | scc | f32 f32 | ~(isnan(a) | isnan(b))",
            "s_cmp_u_f32 | scc | f32 f32 | isnan(a) | isnan(b)",
        ]
        + [
            f"s_cmpk_{name}_{kind} | scc | {kind} {kind} | a {sign} {fit}(b)"
            for name, sign in _CONDITIONS.items()
            for kind, fit in (("i32", "sext16"), ("u32", ""))
        ]
    )
)

_SAVEEXEC = {
    "and": "{s} & {e}", "or": "{s} | {e}", "xor": "{s} ^ {e}", "nand": "~({s} & {e})",
    "and_not1": "{s} & ~{e}", "or_not1": "{s} | ~{e}", "and_not0": "~{s} & {e}",
    "or_not0": "~{s} | {e}",
}  # fmt: skip


def _saveexec(emit: Emitter) -> None:
    """Keep EXEC in the destination, then combine it with the source."""
    name = emit.gen.canonical(emit.instruction)
    kind = "u" + name[-2:]
    if int(name[-2:]) != emit.gen.wave:
        raise Refused("a mask of the other wave size")
    how = _SAVEEXEC[name[2 : name.index("_saveexec")]]
    whole = Operand("s", "exec", EXEC, emit.gen.wave // 32)
    target, source = emit.take(), emit.take()
    mask = emit.local(f"{emit.read_scalar(source, kind)}.copy()")
    old = emit.local(f"{emit.read_scalar(whole, kind)}.copy()")
    emit.write_scalar(target, kind, old)
    new = emit.local(how.format(s=mask, e=old))
    emit.write_scalar(whole, kind, new)
    emit.write_scc(f"{new} != 0")
    emit.effect.facts["saves_exec"] = target.index


for _how in _SAVEEXEC:
    for _bits in ("b32", "b64"):
        TABLE.special(f"s_{_how}_saveexec_{_bits}")(_saveexec)
