"""Each scan on a text that has what it looks for, and on one that has not."""

from __future__ import annotations

import pytest

from reefwatch import isa
from tests.isa.programs import START, program


def kinds(body: str, target: str = "gfx1100", shared: int = 0, **shape) -> list[str]:
    return [found.kind for found in isa.scan(program(body, target=target, **shape), target,
                                             shared=shared).found]  # fmt: skip


def test_lds_against_the_limit() -> None:
    assert kinds("s_nop 0", shared=65536) == []
    assert kinds("s_nop 0", shared=65537) == ["LDS"]
    assert kinds("s_nop 0", target="gfx942", shared=70000) == ["LDS"]


def test_spills_and_occupancy_come_from_the_metadata() -> None:
    text = program("s_nop 0", waves=4).replace(
        "    .max_flat", "    .vgpr_count: 97\n    .vgpr_spill_count: 12\n    .max_flat"
    )
    made = isa.scan(text, "gfx1100", shared=40000)
    assert [found.kind for found in made.found] == ["spill"]
    assert made.facts["vector registers"] == 97
    assert made.facts["waves per SIMD"] == 3  # 131072 // 40000 workgroups of one wave per SIMD
    assert isa.scan(text, "gfx1100").facts["waves per SIMD"] == 12  # 1536 // 120


def test_dot_products_without_a_matrix_core() -> None:
    fma = "ds_load_b32 v9, v8\n" + "v_fmac_f32_e32 v1, v2, v3\n" * 300
    made = isa.scan(program(fma, target="gfx1030"), "gfx1030")
    assert [found.message for found in made.found] == [
        "no matrix core: 300 v_fmac_f32 at one line of the source"]  # fmt: skip
    assert made.found[0].loc == "tests/kernel.py:7"
    assert made.unscanned == ("missing waits", "software waits")
    assert kinds("v_fmac_f32_e32 v1, v2, v3\n" * 300) == []
    with_core = fma + "v_wmma_f32_16x16x16_f16 v[8:15], v[16:23], v[24:31], 0"
    assert "no matrix core" not in kinds(with_core)


def test_reduced_precision() -> None:
    body = "v_mfma_f32_32x32x4_xf32 v[16:31], v[0:1], v[2:3], 0"
    assert kinds(body, target="gfx942") == ["reduced precision"]


READS = (
    START
    + """ds_load_b32 v2, v1
    {}
    s_barrier
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v3, v2"""
)


def test_reads_under_way_at_a_barrier() -> None:
    assert kinds(READS.format("s_waitcnt lgkmcnt(0)")) == []
    assert kinds(READS.format("s_nop 0")) == ["reads at a barrier"]
    assert kinds(READS.format("s_waitcnt vmcnt(0)")) == ["reads at a barrier"]


ACQUIRE = (
    START
    + """global_atomic_add_u32 v2, v1, v0, s[4:5] glc
    s_waitcnt vmcnt(0)
    buffer_gl1_inv
    buffer_gl0_inv
    s_barrier
    {}
    global_load_b32 v2, v1, s[6:7]
    s_waitcnt vmcnt(0)"""
)


def test_an_acquire_that_does_not_reach_every_wave() -> None:
    assert kinds(ACQUIRE.format("buffer_gl0_inv")) == []
    assert kinds(ACQUIRE.format("s_nop 0")) == ["acquire without invalidate"]


PATHS = (
    START
    + """v_mov_b32_e32 v2, 0
    s_cmp_eq_u32 s2, 0
    s_cbranch_scc1 .LJOIN
    global_load_b32 v2, v1, s[4:5]
    .LJOIN:
    {}
    v_add_nc_u32_e32 v3, v2, v2"""
)


def test_a_wait_that_only_one_path_needs() -> None:
    assert kinds(PATHS.format("s_waitcnt vmcnt(0)")) == []
    assert kinds(PATHS.format("s_nop 0")) == ["missing wait on a path"]


@pytest.mark.parametrize(
    ("body", "enough", "short"),
    [
        ("v_mfma_f32_32x32x8_f16 v[16:31], v[0:1], v[2:3], 0\ns_nop {}\nv_mov_b32_e32 v4, v20",
         "10", "9"),
        ("v_mfma_f32_16x16x16_f16 v[16:19], v[0:1], v[2:3], 0\ns_nop {}\nv_mov_b32_e32 v4, v17",
         "6", "5"),
        ("v_mov_b32_e32 v3, v2\ns_nop {}\n"
         "v_mov_b32_dpp v4, v3 row_shr:1 row_mask:0xf bank_mask:0xf", "1", "0"),
        ("v_cmp_eq_u32_e32 vcc, v1, v2\ns_nop {}\nv_div_fmas_f32 v3, v4, v5, v6", "3", "2"),
        ("v_readfirstlane_b32 s5, v1\ns_nop {}\nglobal_load_dword v3, v2, s[4:5]", "4", "3"),
    ],
)  # fmt: skip
def test_software_waits_of_gfx9(body: str, enough: str, short: str) -> None:
    assert "software wait" not in kinds(body.format(enough), target="gfx942")
    assert "software wait" in kinds(body.format(short), target="gfx942")
