"""Instructions that move values between lanes, or between lanes and scalars."""

from __future__ import annotations

from reefwatch.isa.emit import Emitter, Refused
from reefwatch.isa.table import TABLE


@TABLE.special("v_readlane_b32")
def _readlane(emit: Emitter) -> None:
    """One lane, EXEC or not, into a scalar."""
    target, source, lane = emit.take(), emit.take(), emit.take()
    value = emit.read(source, "u32")
    at = emit.read_scalar(lane, "u32")
    emit.write_scalar(target, "u32", f"{value}[st.every, {at} & u32({emit.gen.wave - 1})]")
    emit.effect.facts["any_lane"] = True


@TABLE.special("v_readfirstlane_b32")
def _readfirstlane(emit: Emitter) -> None:
    """The first lane that takes part (lane 0 where none does) into a scalar."""
    target, source = emit.take(), emit.take()
    if source.kind == "s":
        emit.write_scalar(target, "u32", emit.read_scalar(source, "u32"))
        return
    value = emit.read(source, "u32")
    emit.write_scalar(target, "u32", f"{value}[st.every, X.argmax(axis=1)]")


@TABLE.special("v_writelane_b32")
def _writelane(emit: Emitter) -> None:
    """A scalar into one lane, EXEC or not."""
    target, source, lane = emit.take(), emit.take(), emit.take()
    if target.kind != "v":
        raise Refused(f"a result in {target.text}")
    value = emit.read_scalar(source, "u32")
    at = emit.read_scalar(lane, "u32")
    emit.note_write(target)
    emit.line(f"write_lane(st, U[{target.index}], {value}, {at})")


@TABLE.special("v_permlane16_b32", "v_permlanex16_b32")
def _permlane16(emit: Emitter) -> None:
    """Each lane picks any lane of its row of 16, or of the other row of its pair."""
    across = 16 if "x16" in emit.instruction.mnemonic else 0
    target, source, low, high = emit.take(), emit.take(), emit.take(), emit.take()
    any_lane, zero = [*emit.bits("op_sel", [0, 0]), 0][:2]
    emit.modifiers.pop("bound_ctrl", "")
    value = emit.read(source, "u32")
    words = f"{emit.read_scalar(low, 'u32')}, {emit.read_scalar(high, 'u32')}"
    moved = emit.local(f"permlane(st, {value}, {words}, {across}, {bool(any_lane)})")
    if any_lane:
        emit.write(target, "u32", f"{moved}[0]")
    elif zero:
        emit.write(target, "u32", f"where({moved}[1], {moved}[0], u32(0))")
    else:
        emit.write(target, "u32", f"{moved}[0]", where=f"{moved}[1]")


@TABLE.special("v_permlane32_swap_b32", "v_permlane16_swap_b32")
def _permlane_swap(emit: Emitter) -> None:
    """gfx950: exchange the odd rows of the first with the even rows of the second."""
    raise Refused("a lane swap")


@TABLE.special("v_permlane64_b32")
def _permlane64(emit: Emitter) -> None:
    raise Refused("a move between wave halves")


@TABLE.special("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32")
def _mbcnt(emit: Emitter) -> None:
    """Ones of a mask below the own lane, added to the second operand."""
    low = "_lo_" in emit.instruction.mnemonic
    target, mask, addend = emit.take(), emit.take(), emit.take()
    bits = [(1 << min(lane, 32)) - 1 if low else (1 << max(lane - 32, 0)) - 1
            for lane in range(emit.gen.wave)]  # fmt: skip
    below = emit.constant(emit.gen.column(bits))
    value = f"count_ones(lane_shape(st, {emit.read(mask, 'u32')}) & {below})"
    emit.write(target, "u32", f"{value} + {emit.read(addend, 'u32')}")


@TABLE.special("v_swap_b32")
def _swap(emit: Emitter) -> None:
    left, right = emit.take(), emit.take()
    first = emit.local(f"{emit.read(left, 'u32')}.copy()")
    second = emit.local(f"{emit.read(right, 'u32')}.copy()")
    emit.write(left, "u32", second)
    emit.write(right, "u32", first)


@TABLE.special("v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32")
def _accumulator(emit: Emitter) -> None:
    """Between vector and accumulation registers, of which there is one file."""
    target, source = emit.take(), emit.take()
    emit.write(target, "u32", emit.read(source, "u32"))


@TABLE.special("v_nop", "v_pipeflush")
def _nop(emit: Emitter) -> None:
    emit.effect.facts["delay"] = emit.instruction.text


@TABLE.special("ds_bpermute_b32", "ds_permute_b32")
def _permute(emit: Emitter) -> None:
    """Through the LDS crossbar, without memory: pull from a lane, or push to one."""
    push = emit.instruction.mnemonic == "ds_permute_b32"
    target, address, source = emit.take(), emit.take(), emit.take()
    offset = emit.number("offset")
    at = emit.read(address, "u32")
    how = "push_lanes" if push else "pull_lanes"
    value = f"{how}(st, {at}, {emit.read(source, 'u32')}, {offset})"
    emit.write(target, "u32", value)
    emit.effect.issues = ((emit.gen.counter("lds"), emit.effect.writes, 0),)


@TABLE.special("ds_swizzle_b32")
def _swizzle(emit: Emitter) -> None:
    """Through the LDS crossbar by a fixed pattern."""
    target, source = emit.take(), emit.take()
    index = emit.constant(swizzle_lanes(emit.modifiers.pop("offset", "0"), emit.gen.wave))
    value = emit.read(source, "u32")
    emit.write(target, "u32", f"where(X[:, {index}], {value}[:, {index}], u32(0))")
    emit.effect.issues = ((emit.gen.counter("lds"), emit.effect.writes, 0),)


def swizzle_lanes(text: str, wave: int) -> list[int]:
    """The lane that each lane reads, from the pattern as LLVM prints it."""
    name, _, rest = text.removeprefix("swizzle(").rstrip(")").partition(",")
    values = [part.strip().strip('"') for part in rest.split(",")]
    lanes = range(wave)
    if name == "QUAD_PERM":
        picks = [int(value) for value in values]
        return [lane & ~3 | picks[lane & 3] for lane in lanes]
    if name == "BITMASK_PERM":
        return [_bit_pattern(lane, values[0]) for lane in lanes]
    size = int(values[0]) if values[0] else 0
    if name == "SWAP":
        return [lane ^ size for lane in lanes]
    if name == "REVERSE":
        return [lane ^ (size - 1) for lane in lanes]
    if name == "BROADCAST":
        return [lane & ~(size - 1) | int(values[1]) for lane in lanes]
    if not name.replace("0x", "").isalnum() or name[:1].isalpha():
        raise Refused(f"swizzle {text}")
    code = int(name, 0)
    if code & 0x8000:
        return [lane & ~3 | code >> (2 * (lane & 3)) & 3 for lane in lanes]
    keep, ones, flip = code & 31, code >> 5 & 31, code >> 10 & 31
    return [lane & 32 | ((lane & keep | ones) ^ flip) & 31 for lane in lanes]


def _bit_pattern(lane: int, pattern: str) -> int:
    """`p` keeps a bit, `i` inverts it, `0` and `1` set it; the first letter is bit 4."""
    out = lane & ~31
    for bit, letter in zip((16, 8, 4, 2, 1), pattern, strict=True):
        kept = lane & bit
        out |= {"p": kept, "i": kept ^ bit, "0": 0, "1": bit}[letter]
    return out
