"""A tensor of the run as a sketch (measure/sketches.py), and as raw bytes."""

from __future__ import annotations

import hashlib
import math
from typing import Any, NamedTuple

from reefwatch.gather.dtypes import short
from reefwatch.measure.sketches import SLICES, axis_of, positions, steps_of

RUN = 2048
"""Elements whose squares are added up in float32, before the sums are added up in float64: a
processor's norm of a million elements in one go is 1e-5 off (torch 2.13)."""


class Sketcher:
    """Makes sketches; keeps how each shape is read.

    What a tensor has is computed at once and fetched later, all of a step together: a device is
    waited for once a step, not once an op.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._ways: dict[Any, _Way] = {}
        self._waiting: list[_Waiting] = []
        self._of = self._slices = self._norms = 0
        """Elements: of all tensors, and those that were read for slices and for norms."""

    def __call__(self, tensor: Any) -> dict[str, Any]:
        """The sketch of one tensor, now."""
        made = self.later(tensor)
        self.fetch()
        return made

    def later(self, tensor: Any, whole: bool = True) -> dict[str, Any]:
        """The sketch of a tensor; its numbers are there after `fetch`.

        The norm is that of all elements (`whole`), or told by those that are read for the slices.
        """
        torch, t = self._torch, tensor.detach()
        dtype = t.dtype
        wide = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
        if t.is_complex():
            t = torch.view_as_real(t.resolve_conj())
        elif dtype.itemsize == 1 or not dtype.is_floating_point:  # few kernels know these
            t = t.to(wide)
        way, count = self._way(t), t.numel()
        if way.places is None:
            at = t.reshape(-1)[way.positions]
        else:
            flat = t.as_strided((way.extent,), (1,), t.storage_offset())
            at = flat.index_select(0, way.places)
        part = t if way.part is None else t[way.part]
        squares = self._squares(part, way.others, wide)
        norms = None
        if whole and way.part is not None:
            norms = self._parts(t, way.dense, wide)
        self._of += count
        self._slices += way.read
        self._norms += count if whole else way.read
        sketch = {"dtype": short(dtype), "shape": list(t.shape), "axis": way.axis}
        self._waiting.append(_Waiting(sketch, at, squares, norms, count / max(way.read, 1)))
        return sketch

    def shares(self) -> dict[str, float]:
        """The share of all elements that was read for `slices` and for `norms`."""
        count = self._of or 1
        return {"slices": self._slices / count, "norms": self._norms / count}

    def fetch(self) -> None:
        """Fill in the numbers of all sketches that were made since the last time."""
        waiting, self._waiting = self._waiting, []
        ats = self._told([one.at for one in waiting], self._listed)
        slices = self._told([one.squares for one in waiting], self._grouped)
        norms = self._told([one.norms for one in waiting], self._summed)
        for one, at, (squares, whole), norm in zip(waiting, ats, slices, norms, strict=True):
            total = math.sqrt(whole * one.share if norm is None else norm) if whole >= 0 else whole
            _fill(one.sketch, at, squares, total)

    def _squares(self, t: Any, others: tuple[int, ...], wide: Any) -> Any:
        """The sum of squares of each slice, or of all elements; on a device, its root."""
        if t.device.type != "cpu":  # one kernel
            norms = self._torch.linalg.vector_norm(t, dim=others or None, dtype=wide)
            return norms.reshape(-1)
        if t.dim() == 1 and t.dtype == wide:
            return self._torch.dot(t, t).reshape(1)
        kept = t.square() if t.dtype == wide else t.to(wide).square_()
        return kept.sum(others).reshape(-1) if others else kept.sum().reshape(-1)

    def _parts(self, t: Any, dense: bool, wide: Any) -> Any:
        """Norms of parts, that make up that of all elements."""
        norm = self._torch.linalg.vector_norm
        count = t.numel()
        if t.device.type != "cpu" or count <= RUN:
            return norm(t, dtype=wide).reshape(-1)
        flat = t.as_strided((count,), (1,), t.storage_offset()) if dense else t.reshape(-1)
        rows, left = divmod(count, RUN)
        norms = norm(flat[: rows * RUN].view(rows, RUN), dim=1, dtype=wide)
        if left:
            norms = self._torch.cat([norms, norm(flat[rows * RUN :], dtype=wide).reshape(1)])
        return norms

    def _told(self, tensors: list[Any], read: Any) -> list[Any]:
        """What `read` makes of each tensor, by groups of one device, dtype and length."""
        groups: dict[Any, list[int]] = {}
        for number, tensor in enumerate(tensors):
            if tensor is not None:
                key = (tensor.device, tensor.dtype, tensor.numel())
                groups.setdefault(key, []).append(number)
        told: list[Any] = [None] * len(tensors)
        stacked = {
            key: self._torch.stack([tensors[n] for n in numbers]) for key, numbers in groups.items()
        }
        for key, numbers in groups.items():
            rows = read(stacked[key].cpu(), key[0].type != "cpu")
            for number, made in zip(numbers, rows, strict=True):
                told[number] = made
        return told

    def _listed(self, at: Any, far: bool) -> list[Any]:
        made: list[Any] = at.double().tolist()
        return made

    def _summed(self, norms: Any, far: bool) -> list[Any]:
        made: list[Any] = norms.double().square_().sum(1).tolist()
        return made

    def _grouped(self, squares: Any, far: bool) -> list[Any]:
        """(norms of slices or groups of neighbours, sum of all squares) of each row."""
        torch, wide = self._torch, squares.dtype
        sums = squares.double().square() if far else squares.double()
        whole = sums.sum(1).tolist()
        count = sums.shape[1]
        if count > SLICES:
            width = -(-count // SLICES)
            groups = -(-count // width)
            sums = torch.nn.functional.pad(sums, (0, groups * width - count))
            sums = sums.view(-1, groups, width).sum(2)
        return list(zip(sums.sqrt().to(wide).tolist(), whole, strict=True))

    def _way(self, t: Any) -> _Way:
        plain = type(t) is self._torch.Tensor
        key = (t.shape, t.stride() if plain else None, t.device)
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = _reading(self._torch, t, plain)
        return way


class _Way(NamedTuple):
    """How tensors of one shape and layout are read."""

    axis: int | None
    others: tuple[int, ...]
    part: tuple[slice, ...] | None
    """What is read for the slices; None for all."""
    read: int
    positions: list[int]
    places: Any
    """The positions in memory, on the device; None where memory cannot be addressed."""
    extent: int
    dense: bool
    """True when the elements fill their memory without gaps or overlaps."""


def _reading(torch: Any, t: Any, plain: bool) -> _Way:
    shape = tuple(t.shape)
    axis = axis_of(shape)
    others = () if axis is None else tuple(d for d in range(len(shape)) if d != axis)
    steps = steps_of(shape, axis)
    part = tuple(slice((step - 1) // 2, None, step) for step in steps)
    read = math.prod(-(-(n - (k - 1) // 2) // k) for n, k in zip(shape, steps, strict=True))
    flat = positions(t.numel())
    places, extent, dense = None, 0, False
    if plain and flat:
        strides = t.stride()
        extent = 1 + sum((n - 1) * k for n, k in zip(shape, strides, strict=True))
        places = torch.tensor(
            [_address(at, shape, strides) for at in flat], dtype=torch.int64, device=t.device
        )
        dense = _dense(shape, strides)
    return _Way(axis, others, part if max(steps, default=1) > 1 else None, read, flat, places,
                extent, dense)  # fmt: skip


def _dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """True when the elements fill their memory: each stride is the product of lengths below it."""
    expected = 1
    for stride, size in sorted((k, n) for n, k in zip(shape, strides, strict=True) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _address(flat: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The place in memory of an element, by its number in order."""
    place = 0
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        flat, index = divmod(flat, size)
        place += index * stride
    return place


class _Waiting(NamedTuple):
    """A sketch whose numbers are still on the device."""

    sketch: dict[str, Any]
    at: Any
    squares: Any
    norms: Any
    """Of parts of all elements; None where the squares tell the norm."""
    share: float
    """All elements by those that were read for the squares."""


def _fill(sketch: dict[str, Any], at: list[float], slices: list[float], norm: float) -> None:
    fine = math.isfinite(norm) and math.isfinite(sum(at))
    if fine:
        sketch.update(norm=norm, bad=0, at=at)
        sketch["slices"] = [] if sketch["axis"] is None else slices
        return
    # how many elements are not finite would be another pass over all; the told ones tell them apart
    lost = sum(not math.isfinite(v) for v in (*slices, *at))
    at = [v if math.isfinite(v) else 0.0 for v in at]
    sketch.update(norm=0.0, bad=1 + lost, at=at, slices=[])


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
