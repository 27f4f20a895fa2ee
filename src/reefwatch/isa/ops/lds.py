"""LDS, the memory that the waves of a workgroup share."""

from __future__ import annotations

from reefwatch.isa.access import WIDTHS, Access
from reefwatch.isa.emit import Emitter, Refused, vector_bits, vector_row
from reefwatch.isa.table import TABLE
from reefwatch.isa.text import Operand

_ATOMICS = {
    "add_u32": 4, "sub_u32": 4, "min_i32": 4, "max_i32": 4, "min_u32": 4, "max_u32": 4,
    "and_b32": 4, "or_b32": 4, "xor_b32": 4, "add_f32": 4, "min_f32": 4, "max_f32": 4,
    "add_u64": 8, "or_b64": 8, "add_f64": 8,
}  # fmt: skip


def _row(operand: Operand, registers: int) -> int:
    if operand.kind not in "va" or operand.count != registers:
        raise Refused(f"operand {operand.text} has the wrong size")
    return vector_row(operand)


def _issue(emit: Emitter, access: Access, bits: int) -> None:
    if emit.flag("gds"):
        raise Refused("global data share")
    emit.effect.kind = "memory"
    emit.effect.access = access
    emit.effect.issues = ((emit.gen.counter("lds"), bits, 0),)
    emit.line(f"lds(st, {emit.constant(access)})")


def _load(emit: Emitter) -> None:
    name = emit.gen.canonical(emit.instruction)
    size, count, signed, half = WIDTHS[name.removeprefix("ds_load_")]
    target, address = emit.take(), emit.take()
    half = target.half if target.half is not None else half
    emit.read(address, "u32")
    access = Access(emit.instruction, "lds", "load", size, count, signed, half,
                    _row(target, count), address=vector_row(address),
                    offset=emit.number("offset"))  # fmt: skip
    emit.note_write(target, half)
    if half is not None:
        emit.effect.facts["half"] = vector_bits(target, half)
    _issue(emit, access, vector_bits(target, half))


def _store(emit: Emitter) -> None:
    name = emit.gen.canonical(emit.instruction)
    size, count, _, half = WIDTHS[name.removeprefix("ds_store_")]
    address, data = emit.take(), emit.take()
    half = data.half if data.half is not None else half
    emit.read(address, "u32")
    emit.note_read(data, half if half is not None else 0 if size < 4 else None)
    access = Access(emit.instruction, "lds", "store", size, count, False, half,
                    _row(data, count), address=vector_row(address),
                    offset=emit.number("offset"))  # fmt: skip
    _issue(emit, access, 0)


def _two_offsets(emit: Emitter, name: str, words: int) -> tuple[int, int]:
    unit = 4 * words * (64 if "stride64" in name else 1)
    return emit.number("offset0") * unit, emit.number("offset1") * unit


def _load_two(emit: Emitter) -> None:
    name = emit.gen.canonical(emit.instruction)
    words = int(name.rpartition("_b")[2]) // 32
    target, address = emit.take(), emit.take()
    first, second = _two_offsets(emit, name, words)
    emit.read(address, "u32")
    row = _row(target, 2 * words)
    access = Access(emit.instruction, "lds", "load", 4, words, data=row, data2=row + words,
                    address=vector_row(address), offset=first, second=second)  # fmt: skip
    emit.note_write(target)
    _issue(emit, access, vector_bits(target, None))


def _store_two(emit: Emitter) -> None:
    name = emit.gen.canonical(emit.instruction)
    words = int(name.rpartition("_b")[2]) // 32
    address, one, two = emit.take(), emit.take(), emit.take()
    first, second = _two_offsets(emit, name, words)
    emit.read(address, "u32")
    emit.note_read(one)
    emit.note_read(two)
    access = Access(emit.instruction, "lds", "store", 4, words, data=_row(one, words),
                    data2=_row(two, words), address=vector_row(address), offset=first,
                    second=second)  # fmt: skip
    _issue(emit, access, 0)


def _atomic(emit: Emitter) -> None:
    operation = emit.instruction.mnemonic.removeprefix("ds_").replace("_rtn", "")
    size = _ATOMICS[operation]
    result = emit.take() if "_rtn_" in emit.instruction.mnemonic else None
    address, data = emit.take(), emit.take()
    emit.read(address, "u32")
    emit.note_read(data)
    bits = 0
    if result is not None:
        _row(result, size // 4)
        emit.note_write(result)
        bits = vector_bits(result, None)
    access = Access(emit.instruction, "lds", "atomic", size, 1, data=_row(data, size // 4),
                    result=None if result is None else vector_row(result),
                    address=vector_row(address), offset=emit.number("offset"),
                    operation=operation)  # fmt: skip
    _issue(emit, access, bits)


for _width in WIDTHS:
    if not _width.startswith(("d16", "b8", "b16")):
        TABLE.special(f"ds_load_{_width}")(_load)
    if _width.startswith("b"):
        TABLE.special(f"ds_store_{_width}")(_store)
for _bits in ("b32", "b64"):
    for _stride in ("", "_stride64"):
        TABLE.special(f"ds_load_2addr{_stride}_{_bits}")(_load_two)
        TABLE.special(f"ds_store_2addr{_stride}_{_bits}")(_store_two)
for _operation in _ATOMICS:
    _kind, _, _type = _operation.partition("_")
    TABLE.special(f"ds_{_operation}", f"ds_{_kind}_rtn_{_type}")(_atomic)
