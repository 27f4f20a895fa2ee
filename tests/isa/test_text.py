"""Reading assembly text: operands, modifiers, directives, arguments."""

from __future__ import annotations

import pytest

from reefwatch.isa import UnreadableProgram, parse
from reefwatch.isa.text import EXEC, TTMP, VCC, read_instruction, read_operand
from tests.isa.programs import program


@pytest.mark.parametrize(
    ("text", "kind", "index", "count"),
    [
        ("v7", "v", 7, 1), ("v[2:5]", "v", 2, 4), ("s[16:19]", "s", 16, 4), ("a3", "a", 3, 1),
        ("vcc_lo", "s", VCC, 1), ("vcc", "s", VCC, 2), ("exec", "s", EXEC, 2),
        ("ttmp9", "s", TTMP + 9, 1), ("ttmp[2:3]", "s", TTMP + 2, 2), ("off", "w", 0, 1),
    ],
)  # fmt: skip
def test_registers(text: str, kind: str, index: int, count: int) -> None:
    operand = read_operand(text)
    assert (operand.kind, operand.index, operand.count) == (kind, index, count)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0x3fb8aa3b", 0x3FB8AA3B), ("-16", -16), ("0.5", 0.5), ("-4.0", -4.0), ("-0x10", -16)],
)
def test_constants_keep_their_sign(text: str, value: float) -> None:
    operand = read_operand(text)
    assert (operand.kind, operand.value, operand.neg) == ("c", value, False)


def test_signs_halves_and_extension() -> None:
    both = read_operand("-|v3|")
    assert (both.kind, both.index, both.neg, both.abs) == ("v", 3, True, True)
    assert read_operand("v5.h").half == 1 and read_operand("v5.l").half == 0
    assert read_operand("sext(v1)").sext and read_operand("neg(s3)").neg


def test_modifiers_are_kept_by_name() -> None:
    move = read_instruction("v_mov_b32_dpp v0, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0x5")
    assert move.base == "v_mov_b32" and len(move.operands) == 2
    assert move.modifiers == {"quad_perm": "[1,0,3,2]", "row_mask": "0xf", "bank_mask": "0x5"}
    load = read_instruction("buffer_load_b32 v10, v1, s[16:19], 0 offen offset:16 glc")
    assert [o.text for o in load.operands] == ["v10", "v1", "s[16:19]", "0"]
    assert load.modifiers == {"offen": "", "offset": "16", "glc": ""}
    swizzle = read_instruction("ds_swizzle_b32 v1, v2 offset:swizzle(BROADCAST,4,2)")
    assert swizzle.modifiers == {"offset": "swizzle(BROADCAST,4,2)"}
    assert read_instruction("global_inv scope:SCOPE_DEV").modifiers == {"scope": "SCOPE_DEV"}


def test_a_program() -> None:
    text = program("s_nop 0\n.LBB0_1:\nv_dual_mov_b32 v1, 0 :: v_dual_mov_b32 v2, 0 ; note\n"
                   "s_branch .LBB0_1", pointers=1, scalars=2, waves=4, name="mine")  # fmt: skip
    made = parse(text)
    assert (made.name, made.target, made.wave, made.waves) == ("mine", "gfx1100", 32, 4)
    assert made.labels[".LBB0_1"] == 1 and len(made.slots[1]) == 2
    assert [(a.offset, a.size, a.kind) for a in made.arguments] == [
        (0, 8, "global_buffer"), (8, 4, "by_value"), (12, 4, "by_value")]  # fmt: skip
    assert made.slots[0][0].loc == "tests/kernel.py:7"
    assert made.descriptor["next_free_vgpr"] == 32


@pytest.mark.parametrize("text", ["", "hello\n", ".version 8.0\n.target sm_90\n", "{}", "\x00\xff"])
def test_what_is_no_kernel_says_so(text: str) -> None:
    with pytest.raises(UnreadableProgram, match="no AMD GPU kernel"):
        parse(text)
