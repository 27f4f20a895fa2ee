"""What translated code calls: memory, cross-lane moves and matrix products on a State."""

from __future__ import annotations

from typing import Any

import numpy as np

from reefwatch.isa.access import Access
from reefwatch.isa.arith import bf16_to_f32, f16, f32, i32, i64, pair, u32, u64
from reefwatch.isa.atomics import apply_atomic
from reefwatch.isa.memory import BASE, BASE_HIGH
from reefwatch.isa.ops.matrix import Matrix
from reefwatch.isa.small_floats import decode8
from reefwatch.isa.state import State
from reefwatch.isa.text import Instruction

_SMALL = {1: np.uint8, 2: np.uint16}
_SIGNED = {1: np.int8, 2: np.int16}


# ---- shapes
def lane_shape(st: State, x: Any) -> Any:
    """The value spread over all waves and lanes."""
    x = np.asarray(x)
    shape = (st.waves, st.lanes)
    return x if x.shape == shape else np.broadcast_to(x, shape)


wide = lane_shape


# ---- global memory
def _lane_addresses(st: State, access: Access, places: Any) -> Any:
    """Offsets into the arena; what lies far outside becomes an offset beyond its end."""
    row = access.address
    assert row is not None
    if access.base is None:
        low, high = st.R[row], st.R[row + 1]
        if places is not None:
            low, high = low.take(places), high.take(places)
        if (high == BASE_HIGH).all():
            return low + u32(access.offset & 0xFFFFFFFF) if access.offset else low
        address = pair(low, high)
    else:
        base = pair(st.S[access.base], st.S[access.base + 1])
        own = st.R[row] if places is None else st.R[row].take(places)
        address = base[st.waves_of(places)] + own
    return address - u64((BASE - access.offset) & 0xFFFFFFFFFFFFFFFF)


def _buffer_addresses(st: State, access: Access, places: Any) -> tuple[Any, Any]:
    """Offsets into the arena, and which lanes the resource's range lets through."""
    assert access.base is not None
    waves = st.waves_of(places)
    words = [st.S[access.base + n] for n in range(4)]
    base = pair(words[0], words[1] & u32(0xFFFF))
    shift = st.S[access.scalar_offset] if access.scalar_offset is not None else None
    own = np.zeros(len(waves), u64)
    if access.address is not None:
        row = st.R[access.address]
        own = (row if places is None else row.take(places)).astype(u64)
    own = own + u64(access.offset)
    inside = own + u64(access.bytes) <= words[2].astype(u64)[waves]
    total = base[waves] + own + u64(access.scalar_offset_value & 0xFFFFFFFF)
    if shift is not None:
        total = total + shift.astype(u64)[waves]
    return total - u64(BASE), inside


def memory(st: State, access: Access) -> None:
    """Run one global, flat, buffer or scratch instruction."""
    if access.space == "scratch":
        _scratch(st, access)
        return
    places = None if st.full else st.places()
    if places is not None and not len(places):
        return
    if access.space == "buffer":
        offsets, inside = _buffer_addresses(st, access, places)
        if not inside.all():
            kept = np.flatnonzero(inside)
            whole = np.arange(len(inside)) if places is None else places
            if access.kind == "load":
                _clear(st, access, whole[~inside])
            places, offsets = whole[kept], offsets[kept]
            if not len(places):
                return
    else:
        offsets = _lane_addresses(st, access, places)
    together = int(np.bitwise_or.reduce(offsets))
    if together >= st.arena.size or together & (access.size - 1):
        places, offsets = _fault(st, access, places, offsets)
        if not len(places):
            return
    offsets = offsets.astype(i64)
    for observer in st.observers.access:
        observer.access(st, access, places, offsets)
    if access.kind == "load":
        _load_from(st, access, places, offsets, st.arena, access.data)
    elif access.kind == "store":
        _store_to(st, access, places, offsets, st.arena, access.data)
    else:
        apply_atomic(st, access, places, offsets, st.arena)
    for observer in st.observers.accessed:
        observer.accessed(st, access, places, offsets)


def _clear(st: State, access: Access, places: Any) -> None:
    for n in range(access.count):
        row = st.R[access.data + n]
        if access.half is None:
            row[places] = 0
        else:
            row[places] &= u32(0xFFFF0000 if access.half == 0 else 0x0000FFFF)


def _fault(st: State, access: Access, places: Any, offsets: Any) -> tuple[Any, Any]:
    """Lanes whose address is outside all memory are reported and left out."""
    places = np.arange(st.waves * st.lanes) if places is None else places
    offsets = offsets.astype(u64)
    good = offsets <= u64(st.arena.size - access.bytes)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        address = BASE + int(offsets[bad].astype(i64))
        st.observers.report(
            st, "fault", access.instruction,
            f"{access.kind} at {address:#x}, outside every buffer", places[~good],
        )  # fmt: skip
    odd = good & ((offsets & u64(access.size - 1)) != 0)
    if odd.any():
        _unaligned(st, access, places[odd], offsets[odd])
        good &= ~odd
    return places[good], offsets[good]


def _unaligned(st: State, access: Access, places: Any, offsets: Any) -> None:
    """Byte after byte; an atomic must be aligned."""
    at = offsets.astype(i64)
    for observer in st.observers.access:
        observer.access(st, access, places, at)
    if access.kind == "atomic":
        st.observers.report(
            st, "fault", access.instruction, "an atomic that is not aligned", places
        )
        return
    data = st.arena.bytes
    for n in range(access.count):
        row = st.R[access.data + n]
        start = at + n * access.size
        if access.kind == "load":
            value = np.zeros(len(at), u32)
            for byte in range(access.size):
                value |= data[start + byte].astype(u32) << u32(8 * byte)
            _put(row, places, _extend(access, value), access.half)
        else:
            value = row[places] >> u32(16 if access.half else 0)
            for byte in range(access.size):
                data[start + byte] = (value >> u32(8 * byte)).astype(np.uint8)


def _extend(access: Access, value: Any) -> Any:
    if not access.signed:
        return value
    return value.astype(_SMALL[access.size]).view(_SIGNED[access.size]).astype(i32).view(u32)


def _put(row: Any, places: Any, value: Any, half: int | None) -> None:
    """Write a register, or one half of it."""
    if half is not None:
        old = row if places is None else row[places]
        if half:
            value = (old & u32(0xFFFF)) | (value << u32(16))
        else:
            value = (old & u32(0xFFFF0000)) | (value & u32(0xFFFF))
    if places is None:
        row[...] = value
    else:
        row[places] = value


def _load_from(st: State, access: Access, places: Any, offsets: Any, store: Any, data: int) -> None:
    if access.size == 4:
        index = offsets >> 2
        for n in range(access.count):
            value = store.words[index + n if n else index]
            if places is None:
                st.R[data + n][...] = value
            else:
                st.R[data + n][places] = value
        return
    value = store.halves[offsets >> 1] if access.size == 2 else store.bytes[offsets]
    if access.signed:
        value = value.view(_SIGNED[access.size]).astype(i32).view(u32)
    else:
        value = value.astype(u32)
    _put(st.R[data], places, value, access.half)


def _store_to(st: State, access: Access, places: Any, offsets: Any, store: Any, data: int) -> None:
    if access.size == 4:
        index = offsets >> 2
        for n in range(access.count):
            row = st.R[data + n]
            store.words[index + n if n else index] = row if places is None else row.take(places)
        return
    row = st.R[data]
    value = row if places is None else row.take(places)
    if access.half:
        value = value >> u32(16)
    if access.size == 2:
        store.halves[offsets >> 1] = value.astype(np.uint16)
    else:
        store.bytes[offsets] = value.astype(np.uint8)


def scalar_load(
    st: State, instruction: Instruction, address: Any, shift: int, target: int, words: int
) -> None:
    """Load words of each active wave into scalars."""
    offsets = (address - u64((BASE - shift) & 0xFFFFFFFFFFFFFFFF)) & u64(0xFFFFFFFFFFFFFFFC)
    good = offsets <= u64(st.arena.size - 4 * words)
    if not good[st.act].all():
        st.observers.report(st, "fault", instruction, "a scalar load outside every buffer", None)
    for observer in st.observers.scalar_load:
        observer.scalar_load(st, instruction, offsets, words)
    index = np.where(good, offsets, u64(0)).astype(i64) >> 2
    for n in range(words):
        value = st.arena.words[index + n]
        if st.all_act:
            st.S[target + n][...] = value
        else:
            np.copyto(st.S[target + n], value, where=st.act)


def trap(st: State, instruction: Instruction) -> None:
    """Waves that reach a trap."""
    st.observers.report(
        st, "trap", instruction, "the program traps", np.flatnonzero(st.act) * st.lanes
    )


# ---- scratch: private bytes of each lane, laid out [word, wave and lane]
def _scratch(st: State, access: Access) -> None:
    places = None if st.full else st.places()
    count = st.waves * st.lanes
    own = np.arange(count) if places is None else places
    if not len(own):
        return
    offsets = np.full(len(own), access.offset, i64)
    if access.base is not None:
        offsets += st.S[access.base].astype(i64)[st.waves_of(places)]
    if access.address is not None:
        offsets += st.R[access.address][own].astype(i64)
    size = len(st.scratch.words) // count * 4
    bad = (offsets < 0) | (offsets + access.bytes > size)
    if bad.any():
        st.observers.report(
            st, "fault", access.instruction, "scratch beyond the private segment", own[bad]
        )
        offsets = np.clip(offsets, 0, max(size - access.bytes, 0))
    # words of one lane are `count` words apart, so that all lanes of a word lie together
    flat = (offsets >> 2) * (count * 4) + own * 4 + (offsets & 3)
    for n in range(access.count):
        at = flat + n * count * 4
        row = st.R[access.data + n]
        if access.kind == "load":
            if access.size == 4:
                value = st.scratch.words[at >> 2]
            else:
                value = _narrow(st.scratch, access.size, at).astype(u32)
                value = _extend(access, value)
            _put(row, places, value, access.half)
        else:
            value = row if places is None else row.take(places)
            value = value >> u32(16) if access.half else value
            if access.size == 4:
                st.scratch.words[at >> 2] = value
            elif access.size == 2:
                st.scratch.halves[at >> 1] = value.astype(np.uint16)
            else:
                st.scratch.bytes[at] = value.astype(np.uint8)


def _narrow(store: Any, size: int, at: Any) -> Any:
    return store.halves[at >> 1] if size == 2 else store.bytes[at]


# ---- LDS
def lds(st: State, access: Access) -> None:
    """Run one LDS instruction; each workgroup has its own part of one store."""
    places = None if st.full else st.places()
    if places is not None and not len(places):
        return
    assert access.address is not None
    row = st.R[access.address]
    own = row if places is None else row.take(places)
    base = st.lds_base if places is None else st.lds_base.take(places)
    parts = [(access.offset, access.data)]
    if access.second is not None:
        parts.append((access.second, access.data2))
    # both addresses are known before the first result may overwrite their register
    for offsets, data in [(own + u32(shift), data) for shift, data in parts]:
        _lds_part(st, access, places, offsets, base, data)


def _lds_part(st: State, access: Access, places: Any, offsets: Any, base: Any, data: int) -> None:
    together = int(np.bitwise_or.reduce(offsets))
    if together >= st.lds_stride or together & (access.size - 1):
        places, offsets, base = _lds_fault(st, access, places, offsets, base, data)
        if not len(places):
            return
    flat = offsets.astype(i64) + base
    for observer in st.observers.lds:
        observer.lds(st, access, places, flat, data)
    if access.kind == "load":
        _load_from(st, access, places, flat, st.lds_store, data)
    elif access.kind == "store":
        _store_to(st, access, places, flat, st.lds_store, data)
    else:
        apply_atomic(st, access, places, flat, st.lds_store)
    for observer in st.observers.lds_done:
        observer.lds_done(st, access, places, flat, data)


def _lds_fault(
    st: State, access: Access, places: Any, offsets: Any, base: Any, data: int
) -> tuple[Any, Any, Any]:
    """Beyond the workgroup's LDS: loads give 0, stores are dropped, and it is reported."""
    places = np.arange(st.waves * st.lanes) if places is None else places
    good = (offsets.astype(i64) + access.bytes <= st.lds_stride) & (
        (offsets & u32(access.size - 1)) == 0
    )
    if not good.all():
        first = int(offsets[~good][0])
        st.observers.report(
            st, "fault", access.instruction,
            f"{access.kind} at LDS byte {first}, outside or not aligned", places[~good],
        )  # fmt: skip
        if access.kind == "load":
            for n in range(access.count):
                st.R[data + n][places[~good]] = 0
    return places[good], offsets[good], base[good]


def pull_lanes(st: State, address: Any, value: Any, offset: int) -> Any:
    """ds_bpermute: the value of the lane that each lane names; 0 from one that is off."""
    at = ((lane_shape(st, address) + u32(offset)) >> u32(2)) & u32(st.lanes - 1)
    at = at.astype(i64)
    rows = st.every[:, None]
    return np.where(st.X[rows, at], lane_shape(st, value)[rows, at], u32(0))


def push_lanes(st: State, address: Any, value: Any, offset: int) -> Any:
    """ds_permute: each lane sends its value to a lane; 0 where nobody sent."""
    at = ((lane_shape(st, address) + u32(offset)) >> u32(2)) & u32(st.lanes - 1)
    out = np.zeros((st.waves, st.lanes), u32)
    wave, lane = np.nonzero(st.X)
    out[wave, at[wave, lane].astype(i64)] = lane_shape(st, value)[wave, lane]
    return out


def permlane(
    st: State, value: Any, low: Any, high: Any, across: int, any_lane: bool
) -> tuple[Any, Any]:
    """v_permlane16 and x16: what each lane picks, and whether the picked lane takes part."""
    lane = np.arange(st.lanes)
    nibble = (u32(4) * (lane % 8).astype(u32))[None, :]
    word = np.where((lane % 16 < 8)[None, :], low[:, None], high[:, None])
    at = ((lane // 16 * 16) ^ across)[None, :] + ((word >> nibble) & u32(15)).astype(i64)
    rows = st.every[:, None]
    return lane_shape(st, value)[rows, at], st.X[rows, at]


def write_lane(st: State, row: Any, value: Any, lane: Any) -> None:
    """v_writelane: one lane of each active wave."""
    at = (lane & u32(st.lanes - 1)).astype(i64)
    if st.all_act:
        row[st.every, at] = value
    else:
        row[st.every[st.act], at[st.act]] = value[st.act]


# ---- matrices
def _entries(st: State, kind: str, row: int, m: Matrix, signed: bool) -> Any:
    """A or B as f32 (waves, rows, depth)."""
    lanes = m.rows if m.replicated else st.lanes
    raw = st.V[row : row + m.width, :, :lanes].transpose(1, 2, 0)
    raw = np.ascontiguousarray(raw)
    values = _values(kind, raw, signed, st)
    if m.replicated or lanes == m.rows:
        return values
    # runs of 64 bits along the depth alternate between the groups of `rows` lanes
    groups = lanes // m.rows
    runs = max(1, m.width // 2)
    parts = values.reshape(st.waves, groups, m.rows, runs, -1).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(parts).reshape(st.waves, m.rows, m.depth)


def _values(kind: str, raw: Any, signed: bool, st: State) -> Any:
    if kind == "f16":
        return raw.view(f16).astype(f32)
    if kind == "bf16":
        return bf16_to_f32(raw.view(np.uint16))
    if kind in ("iu8", "i8", "u8"):
        return raw.view(np.int8 if signed else np.uint8).astype(f32)
    if kind in ("fp8", "bf8"):
        return decode8(kind, st.lanes == 64)[raw.view(np.uint8)]
    if kind == "xf32":  # ten bits of mantissa are kept
        bits = raw + u32(0xFFF) + ((raw >> u32(13)) & u32(1))
        return (bits & u32(0xFFFFE000)).view(f32)
    return raw.view(f32)


def _row_order(m: Matrix, lanes: int) -> tuple[int, int]:
    """Registers in a run of rows of one lane group, and lane groups."""
    return (1 if m.interleaved else 8 if lanes == 32 else 4), lanes // m.rows


def to_square(m: Matrix, registers: Any) -> Any:
    """(registers, waves, lanes) -> (waves, rows, columns)."""
    height, waves, lanes = registers.shape
    run, groups = _row_order(m, lanes)
    parts = registers.reshape(height // run, run, waves, groups, m.rows)
    return parts.transpose(2, 0, 3, 1, 4).reshape(waves, m.rows, m.rows)


def from_square(m: Matrix, square: Any, lanes: int) -> Any:
    """(waves, rows, columns) -> (registers, waves, lanes)."""
    run, groups = _row_order(m, lanes)
    waves = len(square)
    parts = square.reshape(waves, m.height // run, groups, run, m.rows)
    return parts.transpose(1, 3, 0, 2, 4).reshape(m.height, waves, lanes)


def multiply_matrices(st: State, m: Matrix) -> None:
    """D = A * B + C in f32 or i32; EXEC is ignored."""
    for observer in st.observers.matrix:
        observer.matrix(st, m)
    a = _entries(st, m.kinds[0], m.a, m, m.signed[0])
    b = _entries(st, m.kinds[1], m.b, m, m.signed[1])
    product = np.matmul(a, b.transpose(0, 2, 1))
    kind = f32 if m.total == "f32" else i32
    product = product if kind is f32 else product.astype(i64)
    if m.c is not None:
        product = product + to_square(m, st.V[m.c : m.c + m.height].view(kind))
    elif m.c_value:
        product = product + kind(m.c_value)
    if kind is i32 and m.clamp:
        product = np.clip(product, -(2**31), 2**31 - 1)
    result = from_square(m, product.astype(kind).view(u32), st.lanes)
    if st.all_act:
        st.V[m.d : m.d + m.height] = result
    else:
        st.V[m.d : m.d + m.height, st.act] = result[:, st.act]
