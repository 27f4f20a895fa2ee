"""Packed instructions: two 16-bit (or two 32-bit) values side by side, chosen by op_sel."""

from __future__ import annotations

from reefwatch.isa.emit import TYPES, Emitter, Refused, vector_row
from reefwatch.isa.table import TABLE
from reefwatch.isa.text import Operand

#: name -> (type of a half, operands, expression)
_PACKED = {
    "v_pk_add_f16": ("f16", 2, "{0} + {1}"),
    "v_pk_mul_f16": ("f16", 2, "{0} * {1}"),
    "v_pk_fma_f16": ("f16", 3, "fma16({0}, {1}, {2})"),
    "v_pk_max_f16": ("f16", 2, "fmax({0}, {1})"),
    "v_pk_min_f16": ("f16", 2, "fmin({0}, {1})"),
    "v_pk_maximum_f16": ("f16", 2, "maximum({0}, {1})"),
    "v_pk_minimum_f16": ("f16", 2, "minimum({0}, {1})"),
    "v_pk_add_u16": ("u16", 2, "{0} + {1}"),
    "v_pk_sub_u16": ("u16", 2, "{0} - {1}"),
    "v_pk_add_i16": ("i16", 2, "{0} + {1}"),
    "v_pk_sub_i16": ("i16", 2, "{0} - {1}"),
    "v_pk_mul_lo_u16": ("u16", 2, "{0} * {1}"),
    "v_pk_mad_u16": ("u16", 3, "{0} * {1} + {2}"),
    "v_pk_mad_i16": ("i16", 3, "{0} * {1} + {2}"),
    "v_pk_max_u16": ("u16", 2, "maximum({0}, {1})"),
    "v_pk_min_u16": ("u16", 2, "minimum({0}, {1})"),
    "v_pk_max_i16": ("i16", 2, "maximum({0}, {1})"),
    "v_pk_min_i16": ("i16", 2, "minimum({0}, {1})"),
    "v_pk_lshlrev_b16": ("u16", 2, "{1} << ({0} & u16(15))"),
    "v_pk_lshrrev_b16": ("u16", 2, "{1} >> ({0} & u16(15))"),
    "v_pk_ashrrev_i16": ("i16", 2, "{1} >> ({0} & i16(15))"),
    "v_pk_add_f32": ("f32", 2, "{0} + {1}"),
    "v_pk_mul_f32": ("f32", 2, "{0} * {1}"),
    "v_pk_fma_f32": ("f32", 3, "fma32({0}, {1}, {2})"),
    "v_pk_mov_b32": ("u32", 2, "{0}"),
}


def _pick(emit: Emitter, operand: Operand, kind: str, second: int, neg: int) -> str:
    """One half of a packed operand as an expression."""
    _, name, bits = TYPES[kind]
    if operand.neg or operand.abs or operand.half is not None:
        raise Refused(f"a sign on {operand.text} is not modelled")
    if operand.kind == "c":
        if bits == 32:  # a constant stands for both halves
            text = emit.read(operand, kind)
        else:  # a float fills the low half, an integer is 32 bits wide
            whole = emit.read(operand, "f16" if isinstance(operand.value, float) else "u32")
            whole = f"{whole}.view(u16).astype(u32)" if "." in operand.text else whole
            text = f"half({whole}, {second}, {name})"
    elif bits == 16:
        text = emit.read(operand, kind, second)
    else:
        if operand.count != 2:
            raise Refused(f"operand {operand.text} has the wrong size")
        one = Operand(operand.kind, operand.text, operand.index + second)
        text = emit.read(one, kind)
    return f"(-{text})" if neg else text


def _packed(emit: Emitter) -> None:
    kind, count, expression = _PACKED[emit.instruction.base]
    bits = TYPES[kind][2]
    target = emit.take()
    sources = [emit.take() for _ in range(count)]
    low, high = emit.bits("op_sel", [0] * count), emit.bits("op_sel_hi", [1] * count)
    neg_low, neg_high = emit.bits("neg_lo", [0] * count), emit.bits("neg_hi", [0] * count)
    if any(neg_low + neg_high) and kind[0] != "f":
        raise Refused("a sign on packed integers")
    clamp = emit.flag("clamp")
    if clamp and kind[0] != "f":
        raise Refused("clamp is not modelled here")
    if emit.instruction.base == "v_pk_mov_b32":  # the first gives the low half, the second the high
        halves_of = low
        low, high = [halves_of[0], 0], [0, halves_of[1]]
    values: list[str] = []
    for halves, signs in ((low, neg_low), (high, neg_high)):
        parts = [_pick(emit, s, kind, halves[n], signs[n]) for n, s in enumerate(sources)]
        if emit.instruction.base == "v_pk_mov_b32" and values:
            parts = parts[1:]
        value = expression.format(*parts)
        values.append(emit.local(f"clip01({value})" if clamp else f"array({value})"))
    for second, value in enumerate(values):
        if bits == 32:
            one = Operand(target.kind, target.text, target.index + second)
            emit.write(one, kind, value)
        else:
            emit.note_write(target, second)
            row = vector_row(target)
            emit.store(f"{'h' if second else 'l'}{TYPES[kind][0]}[{row}]", value)


for _name in _PACKED:
    TABLE.special(_name)(_packed)


@TABLE.special("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")
def _mix(emit: Emitter) -> None:
    """Fma in f32 over operands that are f32 or, where op_sel_hi says so, halves of registers."""
    target = emit.take()
    sources = [emit.take() for _ in range(3)]
    which, is_half = emit.bits("op_sel", [0, 0, 0]), emit.bits("op_sel_hi", [0, 0, 0])
    # neg_lo and neg_hi mean negate and absolute here; LLVM prints them as signs on the operand
    parts = [
        f"asarray({emit.read(s, 'f16', which[n])}).astype(f32)"
        if is_half[n]
        else emit.read(s, "f32")
        for n, s in enumerate(sources)
    ]
    value = f"fma32({', '.join(parts)})"
    value = f"clip01({value})" if emit.flag("clamp") else value
    if emit.instruction.base == "v_fma_mix_f32":
        emit.write(target, "f32", value)
        return
    high = int("hi" in emit.instruction.base.removeprefix("v_fma_mix"))
    emit.note_write(target, high)
    emit.store(f"{'h' if high else 'l'}H[{vector_row(target)}]", f"({value}).astype(f16)")


@TABLE.special("v_dot2_f32_f16", "v_dot2_f32_bf16", "v_dot2acc_f32_f16")
def _dot2(emit: Emitter) -> None:
    raise Refused("the order of a dot product's sum is not known here")
