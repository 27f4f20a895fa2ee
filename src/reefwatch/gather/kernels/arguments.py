"""A launch's arguments as the virtual GPU takes them, copied and put back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reefwatch.isa import Scalar

_CODES = {
    "i1": "?", "u1": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I",
    "i64": "q", "u64": "Q", "fp16": "e", "fp32": "f", "f32": "f", "fp64": "d", "f64": "d",
}  # fmt: skip


class Unmodelled(Exception):
    """An argument of a kind that the virtual GPU cannot be given."""


@dataclass(frozen=True)
class Buffer:
    """A tensor argument: its bytes from `data_ptr` to the end of its storage."""

    name: str
    tensor: Any
    address: int
    nbytes: int

    @property
    def memory(self) -> Any:
        """The bytes themselves, as a numpy view; writing it writes the tensor."""
        if not self.nbytes:
            return np.zeros(0, np.uint8)
        raw = (ctypes.c_uint8 * self.nbytes).from_address(self.address)
        return np.frombuffer(memoryview(raw), np.uint8)


@dataclass
class Arguments:
    """What a launch was given, without constants: buffers and scalars in the kernel's order."""

    places: list[Buffer | Scalar | None] = field(default_factory=list)

    @property
    def buffers(self) -> list[Buffer]:
        """The tensor arguments, in order."""
        return [place for place in self.places if isinstance(place, Buffer)]

    def arrays(self) -> list[Any]:
        """What `isa.run` takes."""
        return [place.memory if isinstance(place, Buffer) else place for place in self.places]

    def keep(self) -> list[Any]:
        """A copy of every buffer's bytes."""
        return [buffer.memory.copy() for buffer in self.buffers]

    def put(self, contents: Sequence[Any]) -> None:
        """Write bytes into the tensors; those that share memory say the same."""
        for buffer, content in zip(self.buffers, contents, strict=True):
            buffer.memory[:] = content


def of(signature: Mapping[Any, Any], constants: Any, given: Sequence[Any]) -> Arguments:
    """The arguments of one launch: `signature` has a type for each of `given`.

    Raises Unmodelled.
    """
    made = Arguments()
    for at, (name, kind) in enumerate(signature.items()):
        if kind == "constexpr" or name in constants or (at,) in constants:
            continue
        made.places.extend(_flat(str(name), kind, given[at]))
    return made


def _flat(name: str, kind: Any, value: Any) -> Iterator[Buffer | Scalar | None]:
    if isinstance(kind, tuple):
        for n, (part, one) in enumerate(zip(kind, value, strict=True)):
            if part != "constexpr":
                yield from _flat(f"{name}[{n}]", part, one)
        return
    if kind.startswith("tensordesc"):
        yield from _descriptor(name, value)
    elif kind.startswith("*"):
        yield _buffer(name, value)
    elif kind in ("bf16", "fp16"):  # by value as 16 bits
        yield Scalar(float(value), "e") if kind == "fp16" else Scalar(_bf16(float(value)), "H")
    elif kind in _CODES:
        code = _CODES[kind]
        yield Scalar(float(value) if code in "efd" else int(value), code)
    else:
        raise Unmodelled(f"argument {name} is of type {kind}")


def _descriptor(name: str, value: Any) -> Iterator[Buffer | Scalar | None]:
    """A host-side tensor descriptor, taken apart as Triton's launcher for AMD does it."""
    sizes = [Scalar(int(n), "q") for n in value.shape]
    steps = [Scalar(int(n), "q") for n in value.strides]
    yield _buffer(name, value.base)
    yield from sizes
    yield from steps
    yield Scalar(getattr(value, "padding", "zero") == "nan", "?")
    if hasattr(value, "round_f32_to_tf32"):
        yield Scalar(bool(value.round_f32_to_tf32), "?")
    yield from (Scalar(int(n), "i") for n in value.shape)
    yield from steps


def _bf16(value: float) -> int:
    bits = int(np.float32(value).view(np.uint32))
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 & 0xFFFF


def _buffer(name: str, value: Any) -> Buffer | None:
    if value is None:
        return None
    tensor = getattr(value, "base", value) if not hasattr(value, "untyped_storage") else value
    if not hasattr(tensor, "untyped_storage"):
        raise Unmodelled(f"argument {name} is a pointer that is no tensor")
    storage = tensor.untyped_storage()
    address = tensor.data_ptr()
    return Buffer(name, tensor, address, storage.nbytes() - (address - storage.data_ptr()))
