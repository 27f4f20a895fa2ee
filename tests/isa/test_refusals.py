"""What is not modelled is refused and named; nothing is guessed and nothing is ignored."""

from __future__ import annotations

import numpy as np
import pytest

from reefwatch import isa
from reefwatch.isa import blocks  # noqa: F401 - declares the instructions
from reefwatch.isa.emit import Refused
from reefwatch.isa.generations import GFX9, GFX11, GFX12
from reefwatch.isa.table import TABLE, Table
from tests.isa import test_convert, test_salu, test_valu_float, test_valu_int
from tests.isa.one import fresh, run
from tests.isa.programs import program


def refused(body: str, target: str = "gfx1100", **shape) -> list[isa.Refusal]:
    text = program(body, target=target, pointers=1, **shape)
    result = isa.run(text, target, (1,), [np.zeros(64, np.uint32)])
    assert not result.ran and not result.buffers
    return result.refused


def test_all_unknown_things_are_listed_once_with_their_lines() -> None:
    found = refused("""s_nop 0
        v_frobnicate_b32 v1, v2
        v_add_f32_e64 v1, v2, v3 wobble:1
        v_frobnicate_b32 v4, v5
        s_getreg_b32 s3, hwreg(HW_REG_MODE)""")
    assert [(r.mnemonic, r.reason) for r in found] == [
        ("v_frobnicate_b32", "unknown mnemonic"),
        ("v_add_f32_e64", "modifier wobble is not modelled"),
        ("s_getreg_b32", "unknown mnemonic"),
    ]
    assert found[0].line < found[1].line and found[0].text == "v_frobnicate_b32 v1, v2"


@pytest.mark.parametrize(
    "text",
    [
        "v_add_f32_e32 v1, v2",  # an operand is missing
        "v_add_f32_e32 v1, v2, v3, v4",  # one too many
        "v_add_nc_u32_e64 v1, -v2, v3",  # a sign on an integer
        "v_add_nc_u32_e32 v1, v[2:3], v4",  # a size that does not fit
        "v_add_f32_e32 s1, v2, v3",  # a vector result in a scalar
        "v_mul_lo_u32 v1, v2, v3 clamp",  # a clamp without meaning
        "v_add_f32_e64 v1, v2, v3 op_sel:[1,0,0]",
        "v_mul_hi_u32 v1, v2, v3 row_shr:1",
        "s_add_u32 s1, s2, v3",
        "s_and_b32 s1, -s2, s3",
        "s_mov_b64 s1, s[2:3]",
        "s_waitcnt lgkmcnt(0) & oddcnt",
        "s_barrier_wait 2",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0",
        "global_load_b64 v1, v2, s[4:5]",
        "global_load_b32 v1, v2, s[4:5] lds",
        "global_load_b32 v1, v2, s[4:5] tfe",
        "buffer_load_b32 v1, v2, s[4:7], 0 idxen",
        "buffer_load_b32 v1, v2, s[4:5], 0 offen",
        "ds_load_b32 v1, v2 gds",
        "ds_load_b64 v1, v2",
        "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf row_twirl:2",
        "v_cndmask_b32_e64 v1, v2, v3, 5",
        "v_cmpx_eq_u32_e64 s3, v1, v2",
        "v_mov_b32_e32 v1, src_shared_base",
        "s_swappc_b64 s[2:3], s[4:5]",
        "v_dot2_f32_f16 v1, v2, v3, v4",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(Refused):
        run(fresh(), text)


def test_floating_point_modes_that_are_not_modelled() -> None:
    text = program("s_nop 0", pointers=0).replace(
        ".amdhsa_float_denorm_mode_32 3", ".amdhsa_float_denorm_mode_32 1\n\t\t"
        ".amdhsa_float_round_mode_32 2")  # fmt: skip
    found = isa.run(text, "gfx1100", (1,), []).refused
    assert {r.mnemonic for r in found} == {
        ".amdhsa_float_denorm_mode_32", ".amdhsa_float_round_mode_32"}  # fmt: skip


def test_branches_to_nowhere_and_a_program_without_end() -> None:
    found = refused("s_branch .LNOWHERE\ns_nop 0")
    assert [r.reason for r in found] == ["a branch to .LNOWHERE, where no code is"]
    text = program("s_nop 0", pointers=0).replace("s_endpgm", "s_nop 1")
    for schedule in ("lockstep", 1):
        result = isa.run(text, "gfx1100", (1,), [], schedule=schedule)
        assert result.stopped == "the program runs past its end"


def test_unknown_targets_and_the_known_ones() -> None:
    with pytest.raises(isa.UnknownTarget, match="gfx1030 is not a modelled target"):
        isa.run(program("s_nop 0", pointers=0), "gfx1030", (1,), [])
    assert {"gfx1100", "gfx1201", "gfx942"} <= set(isa.targets())


def test_generations_differ_in_names_only_where_they_should() -> None:
    old, new = fresh(generation=GFX9), fresh(generation=GFX12)
    run(old, "v_add_u32_e32 v1, v2, v3\ns_andn2_b64 s[2:3], s[4:5], s[6:7]", GFX9)
    run(new, "v_max_num_f32_e32 v1, v2, v3\ns_add_co_u32 s1, s2, s3", GFX12)
    for text in ("v_add_u32_e32 v1, v2, v3", "s_andn2_b64 s[2:3], s[4:5], s[6:7]"):
        with pytest.raises(Refused):
            run(fresh(generation=GFX11), text, GFX11)


def test_rows_that_are_malformed_are_refused_at_load() -> None:
    table = Table()
    with pytest.raises(ValueError, match="four cells"):
        table.lanes("v_one | u32 | a")
    with pytest.raises(ValueError, match="one expression for each result"):
        table.lanes("v_one | u32 mask | u32 | a")
    table.lanes("v_one | u32 | u32 | a")
    with pytest.raises(ValueError, match="declared twice"):
        table.lanes("v_one | u32 | u32 | a")


#: rows whose reference lies in another test than the tables of references
ELSEWHERE = {
    "v_mul_legacy_f32", "v_mul_dx9_zero_f32", "v_mac_f32", "v_med3_f32", "v_med3_f16",
    "v_maximum_f32", "v_minimum_f32", "v_maximum3_f32", "v_minimum3_f32", "v_fract_f32",
    "v_fract_f16", "v_fract_f64", "v_ldexp_f32", "v_ldexp_f16", "v_ldexp_f64",
    "v_frexp_exp_i32_f32", "v_frexp_mant_f32", "v_cvt_nearest_i32_f32",
    "v_cvt_pk_norm_i16_f32", "v_cvt_pk_norm_u16_f32",
}  # fmt: skip


def test_every_lane_row_has_a_reference() -> None:
    covered = set(test_valu_int.REFERENCE) | set(test_convert.CASES) | ELSEWHERE
    covered |= {name for name, _, _ in test_valu_float.CASES}
    rest = set(TABLE.lane) - covered
    rest = {name for name in rest if not name.startswith("v_cmp_")}
    variants = ("v_fmac", "v_fmaak", "v_fmamk", "v_div_")  # fma32 and its kin; the division test
    functions = ("exp", "log", "rcp", "rsq", "sqrt", "sin", "cos", "rcp_iflag")
    approximate = {f"v_{name}_f{bits}" for name in functions for bits in (16, 32, 64)}
    assert {n for n in rest if not n.startswith(variants)} - approximate == set()


def test_every_scalar_row_has_a_reference() -> None:
    rest = set(TABLE.scalar) - set(test_salu.REFERENCE)
    known = ("s_cmpk_", "s_cselect", "s_addc", "s_subb", "s_movk", "s_addk", "s_mulk", "v_s_",
             "s_cls", "s_absdiff", "s_bitset", "s_cmov")  # fmt: skip
    assert {n for n in rest if not n.startswith(known) and not n.endswith("f32")} == {
        "s_cvt_f32_i32", "s_cvt_f32_u32"} - set(TABLE.scalar) | {
        n for n in rest if n.startswith("s_cvt") and not n.endswith("f32")}  # fmt: skip
