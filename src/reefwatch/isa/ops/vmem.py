"""Vector memory: global, flat, buffer and scratch loads, stores and atomics."""

from __future__ import annotations

from reefwatch.isa.access import WIDTHS, Access
from reefwatch.isa.emit import Emitter, Refused, vector_bits, vector_row
from reefwatch.isa.table import TABLE
from reefwatch.isa.text import NULL, Operand

ATOMICS = {
    "add_u32": (4, 1), "sub_u32": (4, 1), "min_i32": (4, 1), "max_i32": (4, 1), "min_u32": (4, 1),
    "max_u32": (4, 1), "and_b32": (4, 1), "or_b32": (4, 1), "xor_b32": (4, 1), "swap_b32": (4, 1),
    "cmpswap_b32": (4, 1), "add_f32": (4, 1), "min_f32": (4, 1), "max_f32": (4, 1),
    "add_u64": (8, 1), "min_i64": (8, 1), "max_i64": (8, 1), "min_u64": (8, 1), "max_u64": (8, 1),
    "and_b64": (8, 1), "or_b64": (8, 1), "xor_b64": (8, 1), "swap_b64": (8, 1),
    "cmpswap_b64": (8, 1), "add_f64": (8, 1), "pk_add_f16": (4, 1), "pk_add_bf16": (4, 1),
}  # fmt: skip


def _cache(emit: Emitter) -> str:
    """Consume the cache modifiers; the scope is kept for the observers."""
    for name in ("glc", "slc", "dlc", "nt", "sc0", "sc1"):
        emit.flag(name)
    emit.modifiers.pop("th", "")
    return emit.modifiers.pop("scope", "")


def _address(emit: Emitter, address: Operand, base: Operand) -> dict[str, int | None]:
    """Registers of a global or flat address: 64 bits per lane, or a base and 32 bits per lane."""
    if base.kind == "w" and base.text == "off":
        emit.read(address, "u64")
        return {"address": vector_row(address), "base": None}
    emit.read(address, "u32")
    emit.read_scalar(base, "u64")
    return {"address": vector_row(address), "base": base.index}


def _scratch_address(emit: Emitter, address: Operand, base: Operand) -> dict[str, int | None]:
    place: dict[str, int | None] = {"address": None, "base": None}
    if address.text != "off":
        emit.read(address, "u32")
        place["address"] = vector_row(address)
    if base.text != "off":
        emit.read_scalar(base, "u32")
        place["base"] = base.index
    return place


def _buffer_address(emit: Emitter) -> dict[str, int | None]:
    """Resource, offset register and offset of a buffer instruction (raw buffers only)."""
    offen = "offen" in emit.modifiers
    first = emit.take()
    if offen:
        emit.flag("offen")
        emit.read(first, "u32")
    elif first.text != "off":
        raise Refused("a structured buffer")
    resource, offset = emit.take(), emit.take()
    if resource.kind != "s" or resource.count != 4:
        raise Refused(f"operand {resource.text} has the wrong size")
    emit.note_read(resource)
    place: dict[str, int | None] = {
        "address": vector_row(first) if offen else None,
        "base": resource.index,
    }
    if offset.kind == "c":
        place["scalar_offset_value"] = int(offset.value)
    elif offset.index != NULL:
        emit.read_scalar(offset, "u32")
        place["scalar_offset"] = offset.index
    return place


def _parts(emit: Emitter) -> tuple[str, str, str]:
    name = emit.gen.canonical(emit.instruction)
    space, kind, rest = name.split("_", 2)
    return space, kind, rest


def _data_row(emit: Emitter, operand: Operand, registers: int) -> int:
    if operand.kind not in "va" or operand.count != registers:
        raise Refused(f"operand {operand.text} has the wrong size")
    return vector_row(operand)


def _load(emit: Emitter) -> None:
    space, _, width = _parts(emit)
    size, count, signed, half = WIDTHS[width]
    target = emit.take()
    row = _data_row(emit, target, count)
    half = target.half if target.half is not None else half
    place = _place(emit, space)
    access = Access(emit.instruction, space, "load", size, count, signed, half, row,
                    offset=emit.number("offset"), scope=_cache(emit), **place)  # type: ignore[arg-type]  # fmt: skip
    emit.note_write(target, half)
    if half is not None:
        emit.effect.facts["half"] = vector_bits(target, half)
    _issue(emit, "load", access, vector_bits(target, half))


def _store(emit: Emitter) -> None:
    space, _, width = _parts(emit)
    size, count, _, half = WIDTHS[width]
    if space == "buffer":
        data = emit.take()
        place = _place(emit, space)
    else:
        address, data, base = emit.take(), emit.take(), emit.take()
        emit.operands[:0] = [address, base]
        place = _place(emit, space)
    half = data.half if data.half is not None else half
    row = _data_row(emit, data, count)
    emit.note_read(data, half if half is not None else 0 if size < 4 else None)
    access = Access(emit.instruction, space, "store", size, count, False, half, row,
                    offset=emit.number("offset"), scope=_cache(emit), **place)  # type: ignore[arg-type]  # fmt: skip
    _issue(emit, "store", access, 0)


def _place(emit: Emitter, space: str) -> dict[str, int | None]:
    if space == "buffer":
        return _buffer_address(emit)
    address, base = emit.take(), emit.take()
    if space == "scratch":
        return _scratch_address(emit, address, base)
    if space == "flat":
        emit.operands.insert(0, base) if base.text != "off" else None
        return _address(emit, address, Operand("w", "off"))
    return _address(emit, address, base)


def _atomic(emit: Emitter) -> None:
    space, _, operation = _parts(emit)
    size, count = ATOMICS[operation]
    words = size // 4
    wide = words * (2 if "cmpswap" in operation else 1)
    returns = emit.gen.atomic_returns(emit.modifiers)
    result: Operand | None = None
    if space == "buffer":
        data = emit.take()
        place = _place(emit, space)
        result = data if returns else None
    else:
        result = emit.take() if returns else None
        address, data = emit.take(), emit.take()
        emit.operands.insert(0, address)
        place = _place(emit, space)
    row = _data_row(emit, data, wide)
    emit.note_read(data)
    old = None
    bits = 0
    if result is not None:
        kept = Operand(result.kind, result.text, result.index, words)
        old = vector_row(kept)
        emit.note_write(kept)
        bits = vector_bits(kept, None)
    access = Access(emit.instruction, space, "atomic", size, count, data=row, result=old,
                    offset=emit.number("offset"), operation=operation, scope=_cache(emit),
                    **place)  # type: ignore[arg-type]  # fmt: skip
    _issue(emit, "load" if returns else "store", access, bits)


def _issue(emit: Emitter, counter: str, access: Access, bits: int) -> None:
    emit.effect.kind = "memory"
    emit.effect.access = access
    counters = [emit.gen.counter(counter)]
    if access.space == "flat":
        counters.append(emit.gen.counter("lds"))
    emit.effect.issues = tuple((name, bits, 0) for name in dict.fromkeys(counters))
    emit.line(f"memory(st, {emit.constant(access)})")


for _space in ("global", "buffer", "flat", "scratch"):
    for _width in WIDTHS:
        if _width.startswith(("u", "i", "d16_hi_u", "d16_hi_i", "d16_u", "d16_i")) or _width in (
            "b32", "b64", "b96", "b128", "d16_b16", "d16_hi_b16",
        ):  # fmt: skip
            TABLE.special(f"{_space}_load_{_width}")(_load)
        if _width.startswith("b") or _width.startswith("d16_hi_b"):
            TABLE.special(f"{_space}_store_{_width}")(_store)
    if _space != "scratch":
        for _operation in ATOMICS:
            TABLE.special(f"{_space}_atomic_{_operation}")(_atomic)
