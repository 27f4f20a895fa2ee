"""The first bytes of a Zstandard frame, decompressed in Python.

A compressed offload bundle names its targets in the first few KiB. Decoding stops there, so that no
package is needed and no bundle of hundreds of MB is unpacked. Source: RFC 8878.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MAGIC = b"\x28\xb5\x2f\xfd"
_BLOCK = 1 << 17
"""No block is larger, nor makes more than this."""

_LL_DEFAULT = [4, 3, *[2] * 11, *[1] * 3, *[2] * 9, 3, 2, *[1] * 5, *[-1] * 4]
_OF_DEFAULT = [*[1] * 6, *[2] * 3, *[1] * 15, *[-1] * 5]
_ML_DEFAULT = [1, 4, 3, *[2] * 6, *[1] * 37, *[-1] * 7]
_LL_EXTRA = [*[0] * 16, 1, 1, 1, 1, 2, 2, 3, 3, 4, *range(6, 17)]
_ML_EXTRA = [*[0] * 32, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, *range(7, 17)]


def _bases(extra: Sequence[int], first: int) -> list[int]:
    bases = [first]
    for bits in extra[:-1]:
        bases.append(bases[-1] + (1 << bits))
    return bases


_LL_BASE = _bases(_LL_EXTRA[:25], 0) + [1 << bits for bits in range(6, 17)][:11]
_ML_BASE = _bases(_ML_EXTRA[:43], 3) + [(1 << bits) + 3 for bits in range(7, 17)]


class Malformed(ValueError):
    """What is not a Zstandard frame, or is cut off before its first bytes are complete."""


class _Backward:
    """Bits from the end of a stream to its start; the highest set bit of the last byte is a mark.

    Beyond the start there are zeros; `left` is then negative.
    """

    def __init__(self, raw: bytes) -> None:
        if not raw or not raw[-1]:
            raise Malformed("a bit stream without its end mark")
        self._bits = int.from_bytes(raw, "little")
        self.left = self._bits.bit_length() - 1

    def read(self, count: int) -> int:
        self.left -= count
        if self.left >= 0:
            return (self._bits >> self.left) & ((1 << count) - 1)
        return (self._bits << -self.left) & ((1 << count) - 1)


class _Stream(_Backward):
    """The same over a long stream, of which only a part at the end is needed: by windows."""

    _WINDOW = 512

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._start = max(0, len(raw) - self._WINDOW)
        super().__init__(raw[self._start :])

    def read(self, count: int) -> int:
        if self.left < count and self._start > 0:
            self._refill()
        return super().read(count)

    def _refill(self) -> None:
        kept = self._bits & ((1 << max(0, self.left)) - 1)
        before = max(0, self._start - self._WINDOW)
        more = self._raw[before : self._start]
        self._bits = (kept << (8 * len(more))) | int.from_bytes(more, "little")
        self.left += 8 * len(more)
        self._start = before


@dataclass(frozen=True)
class _Fse:
    """A decoding table: per state the symbol, the bits to read, and the base of the next state."""

    log: int
    cells: Sequence[tuple[int, int, int]]


@dataclass
class _Kept:
    """What one block leaves to the next."""

    huffman: tuple[int, list[tuple[int, int]]] | None = None
    tables: dict[str, _Fse] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=lambda: [1, 4, 8])


def prefix(raw: bytes, wanted: int) -> bytes:
    """The first `wanted` bytes of what `raw` (or its start) decompresses to; fewer if it ends.

    Raises Malformed.
    """
    if raw[:4] != MAGIC:
        raise Malformed("no Zstandard frame")
    out = bytearray()
    kept = _Kept()
    try:
        for kind, body in _blocks(raw, wanted, out):
            if kind == 2:
                _compressed(body, out, kept, wanted)
            else:
                out += body
    except IndexError:
        raise Malformed("a Zstandard frame that is cut off") from None
    return bytes(out[:wanted])


def _blocks(raw: bytes, wanted: int, out: bytearray) -> Iterator[tuple[int, bytes]]:
    flags = raw[4]
    single = bool(flags & 0x20)
    here = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    here += (1 if single else 0, 2, 4, 8)[flags >> 6]
    if flags & 0x08:
        raise Malformed("a reserved bit is set")
    while len(out) < wanted:
        head = int.from_bytes(raw[here : here + 3], "little")
        if here + 3 > len(raw):
            raise Malformed("a Zstandard frame that is cut off")
        last, kind, size = head & 1, (head >> 1) & 3, head >> 3
        here += 3
        if kind == 3 or size > _BLOCK:
            raise Malformed("a block of no known kind or size")
        if kind == 1:
            yield kind, raw[here : here + 1] * size
            here += 1
        else:
            body = raw[here : here + size]
            if len(body) < size:
                raise Malformed("a Zstandard frame that is cut off")
            yield kind, body
            here += size
        if last:
            return


def _compressed(body: bytes, out: bytearray, kept: _Kept, wanted: int) -> None:
    literals, total, here = _literals(body, kept, wanted - len(out))
    count, here = _count(body, here)
    if not count:
        out += literals
        return
    modes = body[here]
    here += 1
    for name, shift, default, log, most in (
        ("ll", 6, _LL_DEFAULT, 6, 9),
        ("of", 4, _OF_DEFAULT, 5, 8),
        ("ml", 2, _ML_DEFAULT, 6, 9),
    ):
        mode = (modes >> shift) & 3
        if mode == 0:
            kept.tables[name] = _fse(default, log)
        elif mode == 1:
            kept.tables[name] = _Fse(0, [(body[here], 0, 0)])
            here += 1
        elif mode == 2:
            odds, used_log, here = _odds(body, here, most)
            kept.tables[name] = _fse(odds, used_log)
        elif name not in kept.tables:
            raise Malformed("a table is repeated that was never there")
    _sequences(_Stream(body[here:]), count, literals, total, out, kept, wanted)


def _count(body: bytes, here: int) -> tuple[int, int]:
    first = body[here]
    if first < 128:
        return first, here + 1
    if first < 255:
        return ((first - 128) << 8) + body[here + 1], here + 2
    return body[here + 1] + (body[here + 2] << 8) + 0x7F00, here + 3


def _sequences(
    bits: _Stream,
    count: int,
    literals: bytes,
    total: int,
    out: bytearray,
    kept: _Kept,
    wanted: int,
) -> None:
    ll, of, ml = (kept.tables[name] for name in ("ll", "of", "ml"))
    state_ll, state_of, state_ml = bits.read(ll.log), bits.read(of.log), bits.read(ml.log)
    taken = 0
    for number in range(count):
        if len(out) >= wanted:
            return
        code = of.cells[state_of][0]
        if code > 31:
            raise Malformed("an offset of no known size")
        value = (1 << code) + bits.read(code)
        code = ml.cells[state_ml][0]
        length = _ML_BASE[code] + bits.read(_ML_EXTRA[code])
        code = ll.cells[state_ll][0]
        literal = _LL_BASE[code] + bits.read(_LL_EXTRA[code])
        if number + 1 < count:
            _, more, base = ll.cells[state_ll]
            state_ll = base + bits.read(more)
            _, more, base = ml.cells[state_ml]
            state_ml = base + bits.read(more)
            _, more, base = of.cells[state_of]
            state_of = base + bits.read(more)
        if bits.left < 0 or taken + literal > total:
            raise Malformed("more is asked for than is there")
        out += literals[taken : taken + literal]
        taken += literal
        if len(out) >= wanted:
            return
        _copy(out, _offset(value, literal, kept.offsets), min(length, wanted))
    out += literals[taken:]


def _offset(value: int, literal: int, recent: list[int]) -> int:
    if value > 3:
        recent[:] = [value - 3, recent[0], recent[1]]
        return recent[0]
    index = value - 1 + (literal == 0)
    offset = recent[index] if index < 3 else recent[0] - 1
    if index == 1:
        recent[:] = [offset, recent[0], recent[2]]
    elif index > 1:
        recent[:] = [offset, recent[0], recent[1]]
    return offset


def _copy(out: bytearray, offset: int, length: int) -> None:
    if not 0 < offset <= len(out):
        raise Malformed("a copy from before the start")
    start = len(out) - offset
    piece = bytes(out[start : start + length])
    out += (piece * (length // len(piece) + 1))[:length]


def _literals(body: bytes, kept: _Kept, wanted: int) -> tuple[bytes, int, int]:
    """(the literals, as far as they are wanted; how many there are; where the section ends)."""
    kind, form = body[0] & 3, (body[0] >> 2) & 3
    if kind < 2:
        size = (1, 2, 1, 3)[form]
        total = int.from_bytes(body[:size], "little") >> (3 if size == 1 else 4)
        if kind == 1:
            return body[size : size + 1] * min(total, _BLOCK), total, size + 1
        return body[size : size + total], total, size + total
    size, width = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
    head = int.from_bytes(body[:size], "little")
    total, packed = (head >> 4) & ((1 << width) - 1), (head >> (4 + width)) & ((1 << width) - 1)
    end = size + packed
    section = body[size:end]
    if len(section) < packed or total > _BLOCK:
        raise Malformed("a Zstandard frame that is cut off")
    used = 0
    if kind == 2:
        weights, used = _weights(section)
        kept.huffman = _huffman(weights)
    if kept.huffman is None:
        raise Malformed("a tree is repeated that was never there")
    streams = section[used:]
    if form == 0:
        return _decode(streams, total, kept.huffman, wanted), total, end
    sizes = [int.from_bytes(streams[at : at + 2], "little") for at in (0, 2, 4)]
    each, at, literals = (total + 3) // 4, 6, b""
    for number in range(4):
        stop = at + sizes[number] if number < 3 else len(streams)
        made = each if number < 3 else total - 3 * each
        if len(literals) < wanted:
            literals += _decode(streams[at:stop], made, kept.huffman, wanted - len(literals))
        at = stop
    return literals, total, end


def _decode(raw: bytes, total: int, tree: tuple[int, list[tuple[int, int]]], wanted: int) -> bytes:
    depth, table = tree
    bits = _Stream(raw)
    mask = (1 << depth) - 1
    state = bits.read(depth)
    made = bytearray()
    for _ in range(min(total, wanted)):
        symbol, used = table[state]
        made.append(symbol)
        state = ((state << used) & mask) | bits.read(used)
    if bits.left < -depth:
        raise Malformed("more is asked for than is there")
    return bytes(made)


def _weights(section: bytes) -> tuple[list[int], int]:
    """(weights of the symbols but the last, bytes used)."""
    head = section[0]
    if head >= 128:
        count = head - 127
        used = 1 + (count + 1) // 2
        nibbles = [part for byte in section[1:used] for part in (byte >> 4, byte & 15)]
        if len(nibbles) < count:
            raise Malformed("a tree that is cut off")
        return nibbles[:count], used
    odds, log, here = _odds(section[: 1 + head], 1, 6)
    table = _fse(odds, log)
    bits = _Backward(section[here : 1 + head])
    states = [bits.read(log), bits.read(log)]
    weights: list[int] = []
    while len(weights) < 255:
        symbol, more, base = table.cells[states[0]]
        weights.append(symbol)
        if bits.left < more:
            weights.append(table.cells[states[1]][0])
            return weights, 1 + head
        states = [states[1], base + bits.read(more)]
    raise Malformed("a tree of more symbols than there are")


def _huffman(weights: list[int]) -> tuple[int, list[tuple[int, int]]]:
    """(bits of the longest code, per value of so many bits the symbol and its bits)."""
    total = sum(1 << (weight - 1) for weight in weights if weight)
    depth = total.bit_length()
    left = (1 << depth) - total
    if not 0 < depth <= 11 or left & (left - 1) or max(weights) > depth:
        raise Malformed("a tree that does not add up")
    every = [*weights, left.bit_length()]
    table: list[tuple[int, int]] = []
    for weight in range(1, depth + 1):
        for symbol, own in enumerate(every):
            if own == weight:
                table += [(symbol, depth + 1 - weight)] * (1 << (weight - 1))
    if len(table) != 1 << depth:
        raise Malformed("a tree that does not add up")
    return depth, table


def _odds(raw: bytes, here: int, most: int) -> tuple[list[int], int, int]:
    """(the odds of each symbol, the log of their sum, where the description ends)."""
    bits = int.from_bytes(raw[here : here + 512], "little")
    log = (bits & 15) + 5
    if here >= len(raw) or log > most:
        raise Malformed("a table that is cut off or too large")
    at, remaining, odds = 4, 1 << log, list[int]()
    while remaining > 0:
        width = (remaining + 1).bit_length()
        value = (bits >> at) & ((1 << width) - 1)
        low = (1 << (width - 1)) - 1
        threshold = (1 << width) - 1 - (remaining + 1)
        if value & low < threshold:
            value, width = value & low, width - 1
        elif value > low:
            value -= threshold
        at += width
        odds.append(value - 1)
        remaining -= abs(value - 1)
        while value == 1:
            repeat = (bits >> at) & 3
            at += 2
            odds += [0] * repeat
            if repeat < 3:
                break
        if len(odds) > 256:
            raise Malformed("a table of more symbols than there are")
    end = here + (at + 7) // 8
    if remaining < 0 or end > len(raw):
        raise Malformed("a table that does not add up")
    return odds, log, end


def _fse(odds: Sequence[int], log: int) -> _Fse:
    size = 1 << log
    symbols = [0] * size
    high = size
    for symbol, odd in enumerate(odds):
        if odd == -1:
            high -= 1
            symbols[high] = symbol
    at = 0
    for symbol, odd in enumerate(odds):
        for _ in range(odd):
            symbols[at] = symbol
            at = (at + (size >> 1) + (size >> 3) + 3) % size
            while at >= high:
                at = (at + (size >> 1) + (size >> 3) + 3) % size
    following = [abs(odd) for odd in odds]
    cells: list[tuple[int, int, int]] = []
    for symbol in symbols:
        state = following[symbol]
        following[symbol] += 1
        more = log - (state.bit_length() - 1)
        cells.append((symbol, more, (state << more) - size))
    return _Fse(log, cells)
