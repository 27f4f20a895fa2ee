"""Global memory: one flat arena that holds every buffer, with gaps between them.

The arena's size is a power of two, and its lowest and highest parts belong to nobody: whether all
of many offsets lie inside, and are aligned, is one OR over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BASE = 0x7F0000000000  # its low word is 0: the low word of an address is the offset
BASE_HIGH = np.uint32(BASE >> 32)
GAP = 1 << 16
LIMIT = 1 << 31  # bytes


@dataclass(frozen=True)
class Region:
    """One buffer in the arena: what it is called, where it begins, how long it is."""

    name: str
    start: int
    size: int
    read_only: bool = False


class Arena:
    """Bytes of global memory. Buffers are copied in, and copied out by `read`."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self._pieces: list[tuple[Region, Any]] = []
        self.end = GAP
        self.bytes: Any = None

    def add(self, name: str, data: Any, read_only: bool = False) -> int:
        """Place the bytes of an array; gives its address. Raises ValueError when full."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        region = Region(name, self.end, len(raw), read_only)
        if self.end + len(raw) + GAP > LIMIT:
            raise ValueError("the buffers are larger than the virtual memory of 2 GiB")
        self.regions.append(region)
        self._pieces.append((region, raw))
        gap = max(4096, min(GAP, len(raw)))
        self.end = (self.end + len(raw) + gap + 255) // 256 * 256
        return BASE + region.start

    def close(self) -> None:
        """Lay out the arena once every buffer is known."""
        size = 1 << (self.end + 4096 - 1).bit_length()
        self.size = size
        self.bytes = np.zeros(size, np.uint8)
        for region, raw in self._pieces:
            self.bytes[region.start : region.start + region.size] = raw
        self._pieces.clear()
        self.halves = self.bytes.view(np.uint16)
        self.words = self.bytes.view(np.uint32)
        self.doubles = self.bytes.view(np.uint64)

    def read(self, region: Region) -> Any:
        """The bytes of a region now."""
        return self.bytes[region.start : region.start + region.size]

    def where(self, offset: int) -> str:
        """An offset in words: the nearest buffer and how far from its ends."""
        if not self.regions:
            return "no buffer"
        near = min(self.regions, key=lambda r: max(r.start - offset, offset - r.start - r.size + 1))
        if offset < near.start:
            return f"{near.start - offset} bytes before {near.name}"
        if offset >= near.start + near.size:
            return f"{offset - near.start - near.size} bytes past the end of {near.name}"
        return f"byte {offset - near.start} of {near.name}"
