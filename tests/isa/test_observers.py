"""Each observer on a small program with the fault, and on the same program without it."""

from __future__ import annotations

import numpy as np
import pytest

from reefwatch import isa
from tests.isa.programs import START, program

STORE = "global_store_b32 v1, v2, s[6:7]"


def seen(text: str, *, count: int = 64, waves: int = 1, schedule: str | int = "lockstep", **more):
    """Kinds that the observers report, and the second buffer."""
    x = np.arange(count, dtype=np.uint32)
    out = np.zeros(count, np.uint32)
    result = isa.run(text, "gfx1100", (1,), [x, out], schedule=schedule, **more)
    assert not result.refused, result.refused
    return [report.kind for report in result.reports], result.buffers[1], result


def clean_and_faulty(body: str, fault: tuple[str, str], **shape):
    """The same program as it is and with one line changed."""
    assert fault[0] in body
    return program(body, **shape), program(body.replace(*fault), **shape)


LOAD = START + "global_load_b32 v2, v1, s[4:5]\ns_waitcnt vmcnt(0)\n" + STORE


def test_bounds() -> None:
    good, bad = clean_and_faulty(LOAD, ("s[4:5]\n", "s[4:5] offset:128\n"))
    assert seen(good, count=32)[0] == []
    kinds, _, result = seen(bad, count=32)
    assert kinds == ["out of bounds"]
    report = result.reports[0]
    assert report.message == "load of 4 bytes at 0 bytes past the end of argument 0"
    assert report.loc == "tests/kernel.py:7" and report.instruction.startswith("global_load_b32")


def test_a_store_out_of_bounds_never_touches_another_buffer() -> None:
    text = program(LOAD.replace(STORE, "global_store_b32 v1, v2, s[6:7] offset:512"))
    kinds, out, _ = seen(text)
    assert kinds == ["out of bounds"] and not out.any()


def test_an_address_outside_all_memory_is_a_fault_with_observers_off() -> None:
    text = program(LOAD.replace("s[4:5]\n", "s[8:9]\n"))
    kinds, out, _ = seen(text, observers=())
    assert kinds == ["fault"] and not out[:32].any()


def test_missing_wait_for_vector_memory_and_for_scalars() -> None:
    good, bad = clean_and_faulty(LOAD, ("s_waitcnt vmcnt(0)", "s_nop 0"))
    assert seen(good)[0] == []
    assert seen(bad)[0] == ["missing wait"]
    _, bad = clean_and_faulty(LOAD, ("s_waitcnt lgkmcnt(0)", "s_nop 0"))
    assert "missing wait" in seen(bad)[0]


def test_a_wait_for_all_but_one_covers_the_older_load_only() -> None:
    two = (
        START
        + """global_load_b32 v2, v1, s[4:5]
        global_load_b32 v3, v1, s[4:5]
        s_waitcnt vmcnt(1)
        v_add_nc_u32_e32 v2, v2, v2
        s_waitcnt vmcnt(0)
        v_add_nc_u32_e32 v2, v2, v3
        """
        + STORE
    )
    good, bad = clean_and_faulty(two, ("vmcnt(1)", "vmcnt(2)"))
    assert seen(good)[0] == []
    kinds, _, result = seen(bad)
    assert kinds == ["missing wait"] and result.reports[0].message.startswith("v2 used")


def test_a_load_overwritten_under_way() -> None:
    body = LOAD.replace("s_waitcnt vmcnt(0)", "v_mov_b32_e32 v2, 0\ns_waitcnt vmcnt(0)")
    kinds, _, result = seen(program(body))
    assert kinds == ["missing wait"] and "overwritten" in result.reports[0].message


def test_uninitialised_register() -> None:
    kinds, _, result = seen(program(START + "v_add_nc_u32_e32 v2, v0, v9\n" + STORE))
    assert kinds == ["uninitialised register"]
    assert result.reports[0].message == "v9 read before any write"


SHARE = (
    START
    + """v_lshlrev_b32_e32 v3, 1, v0
    ds_store_b32 v1, v3
    s_waitcnt lgkmcnt(0)
    s_barrier
    buffer_gl0_inv
    v_xor_b32_e32 v4, 0x80, v1
    ds_load_b32 v2, v4
    s_waitcnt lgkmcnt(0)
    """
    + STORE
)


@pytest.mark.parametrize("schedule", ["lockstep", 1, 2])
def test_lds_shared_over_a_barrier(schedule: str | int) -> None:
    kinds, out, _ = seen(program(SHARE, waves=2, lds=256), schedule=schedule)
    assert kinds == []
    assert out.tolist() == [2 * (n ^ 32) for n in range(64)]


def test_lds_race_without_the_barrier() -> None:
    _, bad = clean_and_faulty(SHARE, ("s_barrier", "s_nop 0"), waves=2, lds=256)
    kinds, out, _ = seen(bad)
    assert kinds == ["LDS race"] and out.tolist() == [2 * (n ^ 32) for n in range(64)]
    wrong = [seen(bad, schedule=seed)[1].tolist() != out.tolist() for seed in range(4)]
    assert any(wrong), "a random wave order shows what lockstep hides"


def test_lds_store_not_waited_for_before_the_barrier() -> None:
    _, bad = clean_and_faulty(SHARE, ("s_waitcnt lgkmcnt(0)\n    s_barrier", "s_barrier"), waves=2,
                              lds=256)  # fmt: skip
    kinds, _, result = seen(bad)
    assert kinds == ["unwaited before barrier"] and "stored it before" in result.reports[0].message


def test_lds_load_not_waited_for_before_a_barrier_after_which_another_wave_stores() -> None:
    again = SHARE.replace(STORE, "s_barrier\nds_store_b32 v1, v3\n" + STORE)
    assert seen(program(again, waves=2, lds=256))[0] == []
    bad = again.replace("s_waitcnt lgkmcnt(0)\n    s_barrier\nds_store", "s_barrier\nds_store")
    bad = bad.replace(
        "ds_store_b32 v1, v3\nglobal", "ds_store_b32 v1, v3\ns_waitcnt lgkmcnt(0)\nglobal"
    )
    kinds, _, result = seen(program(bad, waves=2, lds=256))
    assert kinds == ["unwaited before barrier"] and "loaded it before" in result.reports[0].message


def test_uninitialised_lds() -> None:
    _, bad = clean_and_faulty(SHARE, ("ds_load_b32 v2, v4", "ds_load_b32 v2, v4 offset:256"),
                              waves=2, lds=512)  # fmt: skip
    assert seen(bad)[0] == ["uninitialised LDS"]


def test_lanes_of_one_store_that_disagree() -> None:
    body = (
        START
        + "v_mov_b32_e32 v5, 0\nds_store_b32 v5, {}\ns_waitcnt lgkmcnt(0)\nds_load_b32 v2, v5\n"
    )
    body += "s_waitcnt lgkmcnt(0)\n" + STORE
    assert seen(program(body.format("v5"), lds=64))[0] == []
    kinds, _, result = seen(program(body.format("v0"), lds=64))
    assert kinds == ["conflicting lanes"]
    assert result.reports[0].message == "lanes write different values to LDS byte 0"
    same = START + "v_mov_b32_e32 v5, 0\nglobal_store_b32 v5, {}, s[6:7]"
    assert seen(program(same.format("v5")))[0] == []
    assert seen(program(same.format("v0")))[0] == ["conflicting lanes"]


EXCHANGE = (
    START
    + """global_store_b32 v1, v0, s[6:7]
    s_waitcnt_vscnt null, 0x0
    s_barrier
    buffer_gl0_inv
    v_xor_b32_e32 v4, 0x80, v1
    global_load_b32 v2, v4, s[6:7]
    s_waitcnt vmcnt(0)
    s_barrier
    """
    + STORE
)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (("s_barrier\n    buffer_gl0_inv", "buffer_gl0_inv"), "no barrier between"),
        (("s_waitcnt_vscnt null, 0x0", "s_nop 0"), "did not wait for"),
        (("buffer_gl0_inv", "s_nop 0"), "not told to forget"),
    ],
)
def test_global_memory_between_waves(fault: tuple[str, str], words: str) -> None:
    good, bad = clean_and_faulty(EXCHANGE, fault, waves=2)
    kinds, out, _ = seen(good)
    assert kinds == [] and out.tolist() == [n ^ 32 for n in range(64)]
    kinds, _, result = seen(bad)
    assert kinds == ["global memory order"] and words in result.reports[0].message


MASKED = (
    START
    + """v_mov_b32_e32 v2, 7
    v_cmp_gt_u32_e32 vcc_lo, 16, v0
    s_and_saveexec_b32 s8, vcc_lo
    s_cbranch_execz .LEND
    v_mov_b32_e32 v2, 9
    .LEND:
    s_or_b32 exec_lo, exec_lo, s8
    """
    + STORE
)


def test_exec_not_restored() -> None:
    good, bad = clean_and_faulty(MASKED, ("s_or_b32 exec_lo, exec_lo, s8", "s_nop 0"))
    kinds, out, _ = seen(good, count=32)
    assert kinds == [] and out.tolist() == [9] * 16 + [7] * 16
    kinds, out, _ = seen(bad, count=32)
    assert kinds == ["EXEC not restored"] and not out[16:].any()


def test_a_barrier_that_one_wave_never_reaches() -> None:
    body = (
        START
        + """v_mov_b32_e32 v2, 1
        v_readfirstlane_b32 s8, v0
        s_cmp_eq_u32 s8, 0
        s_cbranch_scc1 .LSKIP
        s_barrier
        .LSKIP:
        """
        + STORE
    )
    kinds, _, result = seen(program(body, waves=2))
    assert kinds == ["barrier deadlock"] and result.ran


def test_a_loop_without_end_stops() -> None:
    _, _, result = seen(program(START + ".LTOP:\ns_branch .LTOP"), max_steps=100)
    assert not result.ran and result.stopped == "the allowance of steps is used up"


def test_observers_can_be_off_and_their_names_are_checked() -> None:
    _, bad = clean_and_faulty(LOAD, ("s_waitcnt vmcnt(0)", "s_nop 0"))
    assert seen(bad, observers=())[0] == []
    assert seen(bad, observers=("bounds",))[0] == []
    assert seen(bad, observers=("waits",))[0] == ["missing wait"]
    with pytest.raises(KeyError):
        seen(bad, observers=("wait",))
