"""A tensor of the run as a sketch (measure/sketches.py), and as raw bytes."""

from __future__ import annotations

import hashlib
import math
from typing import Any, NamedTuple

from reefwatch.gather.dtypes import short
from reefwatch.measure.sketches import SLICES, axis_of, narrowed, positions


class Sketcher:
    """Makes sketches; keeps the positions by size.

    What a tensor has is computed at once and fetched later, all of a step together: a device is
    waited for once a step, not once an op.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._places: dict[tuple[int, Any], Any] = {}
        self._waiting: list[_Waiting] = []

    def __call__(self, tensor: Any) -> dict[str, Any]:
        """The sketch of one tensor, now."""
        made = self.later(tensor)
        self.fetch()
        return made

    def later(self, tensor: Any) -> dict[str, Any]:
        """The sketch of a tensor; its numbers are there after `fetch`."""
        torch, t = self._torch, tensor.detach()
        wide = torch.float64 if t.dtype == torch.float64 else torch.float32
        axis = axis_of(t.shape)
        others = None if axis is None else [d for d in range(t.dim()) if d != axis]
        norms = torch.linalg.vector_norm(t, dim=others, dtype=wide).reshape(-1)
        sketch = {"dtype": short(t.dtype), "shape": list(t.shape), "axis": axis}
        self._waiting.append(_Waiting(sketch, self._at(t).reshape(-1).to(wide), norms))
        return sketch

    def fetch(self) -> None:
        """Fill in the numbers of all sketches that were made since the last time."""
        waiting, self._waiting = self._waiting, []
        groups: dict[Any, list[_Waiting]] = {}
        for one in waiting:
            groups.setdefault((one.at.device, one.at.dtype), []).append(one)
        for group in groups.values():
            told = self._torch.cat([part for one in group for part in (one.at, one.norms)])
            values = told.double().tolist()
            begin = 0
            for one in group:
                middle = begin + one.at.numel()
                end = middle + one.norms.numel()
                _fill(one.sketch, values[begin:middle], values[middle:end])
                begin = end

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


class _Waiting(NamedTuple):
    """A sketch whose numbers are still on the device."""

    sketch: dict[str, Any]
    at: Any
    norms: Any


def _fill(sketch: dict[str, Any], at: list[float], norms: list[float]) -> None:
    lost = sum(not math.isfinite(v) for v in norms)
    whole = math.sqrt(sum(n * n for n in norms)) if not lost else math.nan
    fine = math.isfinite(whole)
    narrow = sketch["dtype"] != "f64"
    sketch["norm"] = whole if fine else 0.0
    # how many elements are not finite would be another pass over all; the told ones tell them apart
    sketch["bad"] = 0 if fine else 1 + lost + sum(not math.isfinite(v) for v in at)
    sketch["at"] = [v if math.isfinite(v) else 0.0 for v in at]
    slices = [] if sketch["axis"] is None or not fine else _grouped(norms)
    sketch["slices"] = [narrowed(v) for v in slices] if narrow else slices


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
