"""Loads, stores and atomics of every space and width."""

from __future__ import annotations

import numpy as np
import pytest

from reefwatch import isa
from tests.isa.programs import START, program

LANES = 32


def run(body: str, args: list, target: str = "gfx1100", **shape) -> isa.Result:
    pointers = sum(isinstance(arg, np.ndarray) for arg in args)
    text = program(body, target=target, pointers=pointers, scalars=len(args) - pointers, **shape)
    result = isa.run(text, target, (1,), args)
    assert result.ran and not result.reports, (result.refused, result.reports)
    return result


BYTES = np.arange(512, dtype=np.uint32).view(np.uint8) * 37 + 200


@pytest.mark.parametrize("width", ["u8", "i8", "u16", "i16", "b32", "b64", "b96", "b128"])
def test_global_loads_and_stores(width: str) -> None:
    size = {"u8": 1, "i8": 1, "u16": 2, "i16": 2}.get(width, int(width[1:]) // 8)
    words = max(1, size // 4)
    step = 16 if size == 12 else max(4, size)
    data = np.arange(2048, dtype=np.uint32).astype(np.uint8) * 7 + 130
    registers = f"v[4:{3 + words}]" if words > 1 else "v4"
    body = (
        START
        + f"""v_mul_lo_u32 v2, v0, {step}
        global_load_{width} {registers}, v2, s[4:5] offset:16
        s_waitcnt vmcnt(0)
        global_store_b{max(32, 32 * words)} v2, {registers}, s[6:7]"""
    )
    out = np.zeros(LANES * step, np.uint8)
    got = run(body, [data, out]).buffers[1]
    for lane in range(LANES):
        raw = data[16 + lane * step :][:size].tobytes()
        if size < 4:
            value = int.from_bytes(raw, "little", signed=width[0] == "i")
            raw = (value & 0xFFFFFFFF).to_bytes(4, "little")
        assert got[lane * step :][: len(raw)].tobytes() == raw


@pytest.mark.parametrize(("half", "wanted"), [("d16", "low"), ("d16_hi", "high")])
def test_loads_into_a_half_keep_the_other(half: str, wanted: str) -> None:
    data = np.arange(LANES, dtype=np.uint32) + 0xAB00
    body = (
        START
        + f"""v_mov_b32_e32 v2, 0x11112222
        global_load_{half}_b16 v2, v1, s[4:5]
        s_waitcnt vmcnt(0)
        global_store_b32 v1, v2, s[6:7]"""
    )
    got = run(body, [data, np.zeros(LANES, np.uint32)]).buffers[1]
    low = data & 0xFFFF
    assert np.array_equal(got, low | 0x11110000 if wanted == "low" else low << 16 | 0x2222)


def test_stores_of_the_upper_half_and_of_a_byte() -> None:
    body = (
        START
        + """v_mov_b32_e32 v2, 0xaabbccdd
        global_store_d16_hi_b16 v1, v2, s[6:7]
        global_store_b8 v1, v2, s[6:7] offset:2"""
    )
    got = run(body, [np.zeros(LANES, np.uint32), np.zeros(LANES, np.uint32)]).buffers[1]
    assert (got == 0x00DDAABB).all()


def test_unaligned_loads_are_byte_by_byte() -> None:
    data = np.arange(256, dtype=np.uint8)
    body = (
        START
        + """global_load_b32 v2, v1, s[4:5] offset:1
        s_waitcnt vmcnt(0)
        global_store_b32 v1, v2, s[6:7] offset:0"""
    )
    got = run(body, [data, np.zeros(LANES, np.uint32)]).buffers[1]
    assert got[3] == int.from_bytes(bytes([13, 14, 15, 16]), "little")


def test_buffers_give_zero_beyond_their_range_and_drop_stores() -> None:
    data = np.arange(LANES, dtype=np.uint32) + 5
    body = (
        START
        + """s_mov_b32 s8, s4
        s_mov_b32 s9, s5
        s_mov_b32 s10, 64
        s_mov_b32 s11, 0x31027000
        s_mov_b32 s12, s6
        s_mov_b32 s13, s7
        s_mov_b32 s14, 32
        s_mov_b32 s15, 0x31027000
        v_mov_b32_e32 v2, 9
        buffer_load_b32 v2, v1, s[8:11], 0 offen
        s_waitcnt vmcnt(0)
        v_add_nc_u32_e32 v2, 1, v2
        buffer_store_b32 v2, v1, s[12:15], 0 offen"""
    )
    got = run(body, [data, np.zeros(LANES, np.uint32)]).buffers[1]
    assert got.tolist() == [6 + n if n < 8 else 0 for n in range(LANES)]
    wide = run(body.replace("s_mov_b32 s14, 32", "s_mov_b32 s14, 0x80"),
               [data, np.zeros(LANES, np.uint32)]).buffers[1]  # fmt: skip
    assert wide.tolist() == [6 + n if n < 16 else 1 for n in range(LANES)]


def test_scratch_is_private_to_a_lane() -> None:
    body = (
        START
        + """v_mul_u32_u24_e32 v2, 3, v0
        v_mov_b32_e32 v3, 0x12345678
        scratch_store_b64 off, v[2:3], off offset:8
        scratch_store_b8 off, v0, off offset:13
        v_mov_b32_e32 v2, 0
        scratch_load_b64 v[4:5], off, off offset:8
        s_waitcnt vmcnt(0)
        v_add_nc_u32_e32 v2, v4, v5
        global_store_b32 v1, v2, s[6:7]"""
    )
    got = run(body, [np.zeros(4, np.uint32), np.zeros(LANES, np.uint32)], scratch=32).buffers[1]
    assert got.tolist() == [3 * n + (0x12340078 | n << 8) for n in range(LANES)]


@pytest.mark.parametrize(
    ("operation", "value", "wanted"),
    [
        ("add_u32", "v0", lambda old: old + sum(range(32))),
        ("max_u32", "v0", lambda old: max(old, 31)),
        ("min_i32", "v0", lambda old: min(old, 0)),
        ("or_b32", "v0", lambda old: old | 31),
        ("xor_b32", "v0", lambda old: old),
        ("and_b32", "v0", lambda old: 0),
    ],
)
def test_atomics_of_all_lanes_on_one_word(operation: str, value: str, wanted) -> None:
    body = (
        START
        + f"""v_mov_b32_e32 v3, 0
        global_atomic_{operation} v3, {value}, s[6:7]"""
    )
    got = run(body, [np.zeros(4, np.uint32), np.array([5, 0], np.uint32)]).buffers[1]
    assert got.tolist() == [wanted(5), 0]


def test_an_atomic_gives_each_lane_the_value_before_its_own() -> None:
    body = (
        START
        + """v_mov_b32_e32 v3, 0
        v_mov_b32_e32 v4, 2
        global_atomic_add_u32 v2, v3, v4, s[4:5] glc
        s_waitcnt vmcnt(0)
        global_store_b32 v1, v2, s[6:7]"""
    )
    result = run(body, [np.array([100], np.uint32), np.zeros(LANES, np.uint32)])
    assert sorted(result.buffers[1].tolist()) == list(range(100, 164, 2))
    assert result.buffers[0].tolist() == [164]


def test_compare_and_swap_and_float_addition() -> None:
    body = (
        START
        + """v_mov_b32_e32 v2, 77
        v_mov_b32_e32 v3, v0
        global_atomic_cmpswap_b32 v4, v1, v[2:3], s[4:5] glc
        s_waitcnt vmcnt(0)
        v_mov_b32_e32 v5, 0.5
        global_atomic_add_f32 v1, v5, s[6:7]"""
    )
    data = np.arange(LANES, dtype=np.uint32)
    data[3] = 500
    result = run(body, [data, np.ones(LANES, np.float32)])
    assert result.buffers[0].tolist() == [500 if n == 3 else 77 for n in range(LANES)]
    assert (result.buffers[1] == 1.5).all()


def test_lds_two_addresses_strides_and_atomics() -> None:
    body = (
        START
        + """v_add_nc_u32_e32 v2, 100, v0
        v_add_nc_u32_e32 v3, 200, v0
        ds_store_2addr_stride64_b32 v1, v2, v3 offset1:1
        s_waitcnt lgkmcnt(0)
        ds_load_2addr_b32 v[0:1], v1 offset0:64
        s_waitcnt lgkmcnt(0)
        v_sub_nc_u32_e32 v4, v0, v1
        v_mov_b32_e32 v5, 0
        v_subrev_nc_u32_e32 v1, 100, v1
        v_lshlrev_b32_e32 v1, 2, v1
        ds_add_u32 v5, v4 offset:4
        s_waitcnt lgkmcnt(0)
        ds_load_b32 v4, v5 offset:4
        s_waitcnt lgkmcnt(0)
        global_store_b32 v1, v4, s[6:7]"""
    )
    got = run(body, [np.zeros(4, np.uint32), np.zeros(LANES, np.uint32)], lds=1024).buffers[1]
    assert (got == 101 + 100 * LANES).all()


def test_64_bit_addresses_in_registers_and_gfx9_names() -> None:
    body = """s_load_dwordx4 s[4:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v2, 2, v0
        v_mov_b32_e32 v3, 0
        s_waitcnt lgkmcnt(0)
        v_lshl_add_u64 v[4:5], v[2:3], 0, s[4:5]
        global_load_dword v6, v[4:5], off offset:4
        v_lshl_add_u64 v[8:9], v[2:3], 0, s[6:7]
        s_waitcnt vmcnt(0)
        global_store_dword v[8:9], v6, off"""
    data = np.arange(65, dtype=np.uint32)
    got = run(body, [data, np.zeros(64, np.uint32)], target="gfx942").buffers[1]
    assert got.tolist() == list(range(1, 65))


def test_arguments_by_value_and_grid() -> None:
    text = program("""s_load_b64 s[4:5], s[0:1], 0x0
        s_load_b64 s[6:7], s[0:1], 0x8
        v_lshl_or_b32 v1, s2, 5, v0
        v_lshlrev_b32_e32 v1, 2, v1
        s_waitcnt lgkmcnt(0)
        v_mul_f32_e64 v2, s7, 2.0
        v_cvt_u32_f32_e32 v2, v2
        v_add3_u32 v2, v2, s6, s2
        global_store_b32 v1, v2, s[4:5]""", pointers=1, scalars=2)  # fmt: skip
    args = [np.zeros(96, np.uint32), isa.Scalar(100), isa.Scalar(2.5, "f")]
    got = isa.run(text, "gfx1100", (3,), args).buffers[0]
    assert got.tolist() == [105 + n // 32 for n in range(96)]
    assert not args[0].any(), "the caller's array is never written"
    with pytest.raises(ValueError, match="argument 1 has 8 bytes, the kernel takes 4"):
        isa.run(text, "gfx1100", (1,), [args[0], isa.Scalar(1, "q"), args[2]])
    with pytest.raises(ValueError, match="4 arguments for a kernel that takes 3"):
        isa.run(text, "gfx1100", (1,), [*args, isa.Scalar(1)])
    with pytest.raises(ValueError, match="argument 1 is a int"):
        isa.run(text, "gfx1100", (1,), [args[0], 1, args[2]])
    with pytest.raises(ValueError, match="workgroups"):
        isa.run(text, "gfx1100", (1 << 20, 2), args)
    with pytest.raises(ValueError, match="positive"):
        isa.run(text, "gfx1100", (0,), args)


def test_arrays_that_share_memory_share_it_in_the_virtual_gpu() -> None:
    body = (
        START
        + """global_load_b32 v2, v1, s[4:5]
        s_waitcnt vmcnt(0)
        v_add_nc_u32_e32 v2, 1, v2
        global_store_b32 v1, v2, s[6:7]"""
    )
    whole = np.arange(LANES + 4, dtype=np.uint32)
    same = run(body, [whole[:LANES], whole[:LANES]]).buffers
    assert same[0].tolist() == same[1].tolist() == list(range(1, LANES + 1))
    first, second = run(body, [whole[:LANES], whole[4:]]).buffers
    assert first.tolist() == [0, 1, 2, 3, *range(1, LANES - 3)]
    assert second.tolist() == list(range(1, LANES + 1)) and whole[0] == 0
    with pytest.raises(ValueError, match="argument 1 is not contiguous"):
        run(body, [whole, np.zeros((LANES, 2), np.uint32)[:, 0]])
