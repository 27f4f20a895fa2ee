"""Inputs at the edges, made from example inputs: odd values, odd sizes, odd memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

Inputs = tuple[Any, ...]
_VALUES = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "minus zero": -0.0,
}


def edges(inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """(what is odd, inputs): the example itself first."""
    yield "the example", inputs
    for name, value in _VALUES.items():
        yield name, _each(inputs, _floating, partial(_put, value=value))
    yield "the largest float", _each(inputs, _floating, lambda t: _put(t, torch.finfo(t.dtype).max))
    yield (
        "the smallest float",
        _each(inputs, _floating, lambda t: _put(t, torch.finfo(t.dtype).tiny)),
    )
    on_cpu = all(t.device.type == "cpu" for t in inputs if isinstance(t, torch.Tensor))
    if on_cpu:  # an index out of range ends the use of a GPU, for both sides
        yield (
            "the largest integer",
            _each(inputs, _integer, lambda t: _put(t, torch.iinfo(t.dtype).max)),
        )
        yield (
            "the smallest integer",
            _each(inputs, _integer, lambda t: _put(t, torch.iinfo(t.dtype).min)),
        )
        yield "minus one", _each(inputs, _signed, lambda t: _put(t, -1))
    size = next((t.shape[0] for t in inputs if isinstance(t, torch.Tensor) and t.dim()), 0)
    if size > 1:
        yield "size one", _sized(inputs, size, lambda t: t[:1])
        yield "an odd tail", _sized(inputs, size, lambda t: torch.cat([t, t[:1]]))
        yield "one less", _sized(inputs, size, lambda t: t[:-1])
    if size:
        yield "empty", _sized(inputs, size, lambda t: t[:0])
    yield "not contiguous", _each(inputs, _dense, _spaced)
    yield "overlapping", _each(inputs, _dense, _expanded)


def _each(
    inputs: Inputs,
    fits: Callable[[torch.Tensor], bool],
    change: Callable[[torch.Tensor], torch.Tensor],
) -> Inputs:
    return tuple(
        _like(change(_bare(t)), t) if isinstance(t, torch.Tensor) and fits(t) else t for t in inputs
    )


def _sized(inputs: Inputs, size: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    return _each(inputs, lambda t: t.dim() > 0 and t.shape[0] == size, change)


def _bare(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


def _like(made: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return made.detach().requires_grad_(tensor.requires_grad)


def _floating(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() and tensor.numel() > 0)


def _integer(tensor: torch.Tensor) -> bool:
    kinds = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
    return tensor.dtype in kinds and tensor.numel() > 0


def _signed(tensor: torch.Tensor) -> bool:
    return _integer(tensor) and tensor.dtype != torch.uint8


def _dense(tensor: torch.Tensor) -> bool:
    return bool(tensor.dim() > 0 and tensor.layout == torch.strided)


def _put(tensor: torch.Tensor, value: Any) -> torch.Tensor:
    """The value in the first element and in one near the end."""
    flat = tensor.reshape(-1)
    flat[0] = value
    flat[-1 if len(flat) < 3 else -2] = value
    return flat.reshape(tensor.shape)


def _spaced(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, every other element of a larger tensor."""
    wide = tensor.new_zeros((*tensor.shape[:-1], 2 * tensor.shape[-1]))
    wide[..., ::2] = tensor
    return wide[..., ::2]


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    """The first row in the place of every row, in the same memory."""
    return tensor[:1].expand(tensor.shape) if tensor.shape[0] else tensor
