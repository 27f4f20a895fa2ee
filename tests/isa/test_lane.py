"""Moves between lanes, dual issue, sub-dword selection and packed halves."""

from __future__ import annotations

import random

import numpy as np
import pytest

from reefwatch.isa import blocks  # noqa: F401 - declares the instructions
from reefwatch.isa.emit import Refused
from reefwatch.isa.generations import GFX9
from reefwatch.isa.text import EXEC
from tests.isa.one import fresh, get, put, run

LANES = list(range(32))


def moved(modifiers: str, generation=None, old: int = 1000, exec_mask: int | None = None):
    """What each lane of v2 holds after a DPP move of 100 + lane; None for the old value."""
    kinds = {} if generation is None else {"generation": generation}
    st = fresh(**kinds)
    put(st, 8, [100 + n for n in range(st.lanes)])
    put(st, 2, [old] * st.lanes)
    if exec_mask is not None:
        st.S[EXEC][...] = exec_mask
    run(st, f"v_mov_b32_dpp v2, v8 {modifiers}", *([generation] if generation else []))
    return [None if x == old else x if x == 0 else x - 100 for x in get(st, 2)]


ALL = "row_mask:0xf bank_mask:0xf"


@pytest.mark.parametrize(
    ("modifiers", "wanted"),
    [
        (f"quad_perm:[1,0,3,2] {ALL}", [n ^ 1 for n in LANES]),
        (f"quad_perm:[0,0,0,0] {ALL}", [n & ~3 for n in LANES]),
        (f"row_shr:1 {ALL}", [n - 1 if n % 16 else None for n in LANES]),
        (f"row_shl:2 {ALL}", [n + 2 if n % 16 < 14 else None for n in LANES]),
        (f"row_ror:3 {ALL}", [n // 16 * 16 + (n - 3) % 16 for n in LANES]),
        (f"row_mirror {ALL}", [n ^ 15 for n in LANES]),
        (f"row_half_mirror {ALL}", [n ^ 7 for n in LANES]),
        (f"row_share:5 {ALL}", [n // 16 * 16 + 5 for n in LANES]),
        (f"row_xmask:6 {ALL}", [n ^ 6 for n in LANES]),
        ("row_xmask:1 row_mask:0x1 bank_mask:0xf", [n ^ 1 if n < 16 else None for n in LANES]),
        ("row_xmask:1 row_mask:0xf bank_mask:0x5", [None if n & 4 else n ^ 1 for n in LANES]),
        ("dpp8:[7,6,5,4,3,2,1,0]", [n ^ 7 for n in LANES]),
    ],
)  # fmt: skip
def test_dpp(modifiers: str, wanted: list[int | None]) -> None:
    assert moved(modifiers) == wanted


def test_dpp_bound_control_reads_zero_instead_of_keeping() -> None:
    got = moved(f"row_shr:1 {ALL} bound_ctrl:1")
    assert [got[0], got[16]] == [0, 0] and got[1:4] == [0, 1, 2]


def test_dpp_lanes_that_are_off_are_no_source() -> None:
    kept = moved(f"quad_perm:[1,0,3,2] {ALL}", exec_mask=0xFFFFFFFE)
    assert kept[0] is None and kept[1] is None and kept[2] == 3
    zero = moved(f"quad_perm:[1,0,3,2] {ALL} bound_ctrl:1", exec_mask=0xFFFFFFFE)
    assert zero[1] == 0
    any_lane = moved(f"quad_perm:[1,0,3,2] {ALL} fi:1", exec_mask=0xFFFFFFFE)
    assert any_lane[0] is None and any_lane[1] == 0


def test_dpp_broadcasts_of_gfx9() -> None:
    rows = moved(f"row_bcast:15 {ALL}", GFX9)
    assert rows[:16] == [None] * 16 and rows[16:32] == [15] * 16 and rows[48] == 47
    halves = moved("row_bcast:31 row_mask:0xc bank_mask:0xf", GFX9)
    assert halves[:32] == [None] * 32 and halves[32:] == [31] * 32


def test_dpp_on_an_addition_reads_the_first_operand_moved() -> None:
    st = fresh()
    put(st, 8, LANES)
    put(st, 9, [1000] * 32)
    run(st, f"v_add_nc_u32_dpp v2, v8, v9 row_xmask:1 {ALL}")
    assert get(st, 2) == [1000 + (n ^ 1) for n in LANES]


def test_readlane_writelane_and_readfirstlane() -> None:
    st = fresh(waves=2)
    put(st, 8, list(range(64)))
    st.S[4][...] = [3, 5]
    st.S[EXEC][...] = 0xFF00
    run(st, "v_readlane_b32 s2, v8, 7\nv_readlane_b32 s3, v8, s4\nv_readfirstlane_b32 s5, v8")
    assert st.S[2].tolist() == [7, 39]
    assert st.S[3].tolist() == [3, 37]
    assert st.S[5].tolist() == [8, 40]
    run(st, "v_writelane_b32 v9, s4, 1")
    assert (int(st.V[9, 0, 1]), int(st.V[9, 1, 1]), int(st.V[9, 0, 8])) == (3, 5, 0)


def test_permlanes() -> None:
    st = fresh()
    put(st, 8, LANES)
    st.S[2][...], st.S[3][...] = 0x76543210, 0xFEDCBA98
    run(st, "v_permlanex16_b32 v2, v8, s2, s3\nv_permlane16_b32 v3, v8, s3, s2")
    assert get(st, 2) == [n ^ 16 for n in LANES]
    assert get(st, 3) == [n ^ 8 for n in LANES]
    run(st, "v_permlanex16_b32 v4, v8, -1, -1 op_sel:[1,0]")
    assert get(st, 4) == [31 if n < 16 else 15 for n in LANES]


@pytest.mark.parametrize(
    ("pattern", "lane"),
    [
        ("swizzle(SWAP,16)", lambda n: n ^ 16),
        ("swizzle(REVERSE,8)", lambda n: n ^ 7),
        ("swizzle(BROADCAST,4,2)", lambda n: n & ~3 | 2),
        ("swizzle(QUAD_PERM,3,2,1,0)", lambda n: n ^ 3),
        ('swizzle(BITMASK_PERM,"01pip")', lambda n: (n & 5 | 8) | (~n & 2)),
        ("0x401f", lambda n: n ^ 16),
        ("0x80b1", lambda n: n ^ 1),
    ],
)
def test_swizzle(pattern: str, lane) -> None:
    st = fresh()
    put(st, 8, LANES)
    run(st, f"ds_swizzle_b32 v2, v8 offset:{pattern}")
    assert get(st, 2) == [lane(n) for n in LANES]


def test_bpermute_pulls_and_permute_pushes() -> None:
    rng = random.Random(0)
    to = rng.sample(LANES, 32)
    st = fresh()
    put(st, 8, [4 * n for n in to])
    put(st, 9, [50 + n for n in LANES])
    run(st, "ds_bpermute_b32 v2, v8, v9\nds_permute_b32 v3, v8, v9")
    assert get(st, 2) == [50 + n for n in to]
    assert [get(st, 3)[n] for n in to] == [50 + n for n in LANES]
    st.S[EXEC][...] = 0xFFFFFFFE
    run(st, "ds_bpermute_b32 v4, v8, v9")
    assert get(st, 4)[to.index(0)] == 0 or to[0] == 0


def test_lanes_below_are_counted() -> None:
    st = fresh(generation=GFX9)
    run(st, "v_mbcnt_lo_u32_b32 v2, -1, 0\nv_mbcnt_hi_u32_b32 v2, -1, v2", GFX9)
    assert get(st, 2) == list(range(64))


def test_dual_issue_reads_before_either_half_writes() -> None:
    st = fresh()
    put(st, 1, LANES)
    put(st, 2, [100 + n for n in LANES])
    run(st, "v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v2, v1")
    assert get(st, 1) == [100 + n for n in LANES] and get(st, 2) == LANES
    run(st, "v_dual_add_nc_u32 v1, v1, v2 :: v_dual_lshlrev_b32 v3, 1, v1")
    assert get(st, 1) == [100 + 2 * n for n in LANES]
    assert get(st, 3) == [200 + 2 * n for n in LANES]
    run(st, "v_dual_mov_b32 v4, v5 :: v_dual_mov_b32 v6, v1")
    assert get(st, 6) == get(st, 1)


def test_half_registers() -> None:
    st = fresh()
    put(st, 8, [0x0005_0003] * 32)
    put(st, 2, [0xAAAA_BBBB] * 32)
    run(st, "v_add_nc_u16 v2.h, v8.l, v8.h\nv_mov_b16_e32 v2.l, v8.h")
    assert get(st, 2) == [0x0008_0005] * 32
    with pytest.raises(Refused):
        run(st, "v_add_nc_u32_e32 v2, v8.l, v8")


def test_op_sel_picks_halves() -> None:
    st = fresh()
    put(st, 8, [0x0005_0003] * 32)
    run(st, "v_add_nc_u16 v2, v8, v8 op_sel:[1,0,1]")
    assert get(st, 2) == [0x0008_0000] * 32


def test_sub_dword_selection() -> None:
    st = fresh(generation=GFX9)
    put(st, 8, [0x80F1_02C3] * 64)
    put(st, 9, [1] * 64)
    run(st, "v_lshlrev_b32_sdwa v2, v9, v8 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD "
        "src1_sel:BYTE_0\nv_or_b32_sdwa v3, v8, v9 dst_sel:WORD_1 dst_unused:UNUSED_PAD "
        "src0_sel:WORD_1 src1_sel:DWORD\nv_add_u32_sdwa v4, sext(v8), v9 dst_sel:DWORD "
        "dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:DWORD", GFX9)  # fmt: skip
    assert get(st, 2)[0] == 0xC3 << 1
    assert get(st, 3)[0] == 0x80F1_0000
    assert get(st, 4)[0] == 0xFFFFFF80 + 1


def test_packed_halves_and_their_selection() -> None:
    one = int(np.float16(1.5).view(np.uint16))
    two = int(np.float16(2.0).view(np.uint16))
    st = fresh()
    put(st, 8, [two << 16 | one] * 32)

    def halves(row: int) -> list[float]:
        return st.V[row].view(np.float16)[0, :2].tolist()

    run(st, "v_pk_add_f16 v2, v8, v8\nv_pk_mul_f16 v3, v8, v8 op_sel:[1,0] op_sel_hi:[1,0]\n"
        "v_pk_add_f16 v4, v8, v8 neg_lo:[0,1] neg_hi:[1,0]\nv_pk_mul_f16 v5, v8, 2.0 "
        "op_sel_hi:[1,0]")  # fmt: skip
    assert halves(2) == [3.0, 4.0]
    assert halves(3) == [3.0, 3.0]
    assert halves(4) == [0.0, 0.0]
    assert halves(5) == [3.0, 4.0]


def test_packed_singles() -> None:
    st = fresh(generation=GFX9)
    for row, value in ((8, 1.0), (9, 2.0), (10, 10.0), (11, 20.0)):
        put(st, row, np.full(64, value, np.float32).view(np.uint32))

    def floats(row: int) -> list[float]:
        return st.V[row : row + 2, 0, 0].view(np.float32).tolist()

    run(st, "v_pk_add_f32 v[2:3], v[8:9], v[10:11]\n"
        "v_pk_mul_f32 v[4:5], v[8:9], v[10:11] op_sel_hi:[1,0]\n"
        "v_pk_fma_f32 v[6:7], v[8:9], v[10:11], v[8:9] op_sel:[1,0,0] neg_lo:[0,0,1]\n"
        "v_pk_mov_b32 v[12:13], v[8:9], v[10:11] op_sel:[1,0]", GFX9)  # fmt: skip
    assert floats(2) == [11.0, 22.0]
    assert floats(4) == [10.0, 20.0]
    assert floats(6) == [19.0, 42.0]
    assert floats(12) == [2.0, 10.0]
