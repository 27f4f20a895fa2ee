"""A tensor of the run as a sketch (measure/sketches.py), and as raw bytes."""

from __future__ import annotations

import hashlib
import math
from typing import Any

from reefwatch.gather.dtypes import short
from reefwatch.measure.sketches import SLICES, axis_of, positions


class Sketcher:
    """Makes sketches; keeps the positions by size."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._places: dict[tuple[int, Any], Any] = {}

    def __call__(self, tensor: Any) -> dict[str, Any]:
        torch, t = self._torch, tensor.detach()
        wide = torch.float64 if t.dtype == torch.float64 else torch.float32
        axis = axis_of(t.shape)
        if axis is None:
            squares = torch.linalg.vector_norm(t, dtype=wide).reshape(1)
        else:
            others = [d for d in range(t.dim()) if d != axis]
            squares = torch.linalg.vector_norm(t, dim=others, dtype=wide)
        told = torch.cat([self._at(t).to(wide), squares.to(wide)]).double().tolist()
        count = len(told) - squares.numel()
        at, norms = told[:count], told[count:]
        whole = math.sqrt(sum(n * n for n in norms)) if all(map(math.isfinite, norms)) else math.nan
        return {
            "dtype": short(t.dtype),
            "shape": list(t.shape),
            "norm": whole if math.isfinite(whole) else 0.0,
            "bad": 0 if math.isfinite(whole) else self._bad(t),
            "at": [v if math.isfinite(v) else 0.0 for v in at],
            "axis": axis,
            "slices": [] if axis is None or not math.isfinite(whole) else _grouped(norms),
        }

    def _bad(self, t: Any) -> int:
        bad = int(t.numel() - self._torch.isfinite(t).sum())
        return bad or -1  # finite elements whose squares are not

    def _at(self, t: Any) -> Any:
        count = t.numel()
        key = (count, t.device)
        places = self._places.get(key)
        if places is None:
            places = self._torch.tensor(positions(count), device=t.device)
            self._places[key] = places
        if t.is_contiguous():
            return t.view(-1).index_select(0, places)
        left, found = places, []
        for size in reversed(t.shape):
            found.append(left % size)
            left = left // size
        return t[tuple(reversed(found))] if found else t.reshape(1)


def _grouped(norms: list[float]) -> list[float]:
    if len(norms) <= SLICES:
        return norms
    width = -(-len(norms) // SLICES)
    return [
        math.sqrt(sum(n * n for n in norms[at : at + width])) for at in range(0, len(norms), width)
    ]


def raw(torch: Any, tensor: Any) -> bytes:
    """The elements as bytes, in order."""
    kept = tensor.detach().cpu().contiguous()
    if kept.numel() == 0:
        return b""
    return bytes(kept.view(-1).view(torch.uint8).numpy().tobytes())


def digest(torch: Any, tensor: Any) -> str:
    return hashlib.sha1(raw(torch, tensor), usedforsecurity=False).hexdigest()


def restore(torch: Any, found: tuple[bytes, str, tuple[int, ...]], like: Any) -> Any:
    """A tensor from its bytes, with the dtype and device of `like`; None when it does not fit."""
    content, dtype, shape = found
    if dtype != short(like.dtype) or tuple(like.shape) != shape:
        return None
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else None
    if flat is None:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    return flat.view(like.dtype).view(shape).to(like.device)
