"""A checkpoint with one batch as a small reference: `--against C.safetensors --batch B...`.

In the batch's file every tensor is part of the batch, but for those named `expected.loss`,
`expected.output`, `expected.grad.NAME` and `expected.param.NAME` (a parameter after the first
update): these are what the trusted machine made of the checkpoint and the batch. The file format
does not keep an order, so a batch's tensors are told apart by dtype and shape, then by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.gather.dtypes import short
from reefwatch.gather.loop.place import outermost_call

EXPECTED = "expected."
_KINDS = {"grad": "gradient", "param": "parameter"}


class Small:
    """A ReferenceReader over two files of tensors (`names()`, `tensor(name)`)."""

    def __init__(self, checkpoint: Any, batch: Any) -> None:
        self._weights, self._batch = checkpoint, batch
        self.head: Mapping[str, Any] = {"small": True, "steps": [0], "band": [0.0]}
        self._names = {f"0/weight/{name}": (checkpoint, name) for name in checkpoint.names()}
        given = sorted(name for name in batch.names() if not name.startswith(EXPECTED))
        self._names |= {f"0/given/{n}": (batch, name) for n, name in enumerate(given)}

    def tensor(self, name: str) -> tuple[bytes, str, tuple[int, ...]] | None:
        where = self._names.get(name)
        return None if where is None else where[0].tensor(where[1])

    def resolve(self, weight: str) -> str:
        """The name here of a weight of the run, which may have a prefix (`module.`) on one side."""
        if f"0/weight/{weight}" in self._names:
            return f"0/weight/{weight}"
        alike = [
            name
            for name in self._weights.names()
            if name.endswith(f".{weight}") or weight.endswith(f".{name}")
        ]
        return f"0/weight/{alike[0]}" if len(alike) == 1 else ""

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """What is given, then what is expected. Called when torch is there."""
        for name in self._names:
            raw, dtype, shape = self._of(name)
            told = {"given": name, "dtype": dtype, "shape": list(shape), "bytes": len(raw)}
            told["digest"] = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
            yield {**told, "weight": "/weight/" in name, "constant": False}
        order = 0
        for name in sorted(self._batch.names()):
            if not name.startswith(EXPECTED):
                continue
            kind, _, param = name.removeprefix(EXPECTED).partition(".")
            if kind == "loss":
                self.head = {**self.head, "losses": [float(self._values(name).reshape(-1)[0])]}
                continue
            phase = _KINDS.get(kind, "forward")
            row = {"step": 0, "phase": phase, "module": param, "op": phase, "out": 0, "nth": 0}
            row.update(order=order, file="", line=0, sketch=self._sketch(name))
            order += 1
            yield row

    def _of(self, name: str) -> tuple[bytes, str, tuple[int, ...]]:
        found = self.tensor(name)
        assert found is not None
        return found

    def _values(self, name: str) -> Any:
        import torch

        raw, dtype, shape = self._batch.tensor(name)
        kind = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16}.get(dtype)
        flat = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        return flat.view(kind or torch.bfloat16).view(shape)

    def _sketch(self, name: str) -> dict[str, Any]:
        import torch

        from reefwatch.gather.numerics.sketch import Sketcher

        return Sketcher(torch)(self._values(name))


class Batch:
    """Finds where the tensors of the batch belong in the first step of the run.

    From the first call of a module on: its arguments, then what other ops of the forward read
    (labels). A tensor with a gradient, or of another dtype and shape, is none of the batch.
    """

    def __init__(self, torch: Any, given: Mapping[str, Any]) -> None:
        self._torch = torch
        self._entry = torch.nn.Module._call_impl.__code__
        self._left = {name: row for name, row in given.items() if not row["weight"]}
        self.begun: Any = None
        """The module that was called first in training."""

    def reads(self, values: Any) -> Iterator[tuple[str, Any]]:
        """(name in the reference, tensor of the run) for each that is met for the first time."""
        if self.begun is not None and not self._left:
            return
        if self.begun is None:
            frame = outermost_call(self._entry)
            if frame is None or not getattr(frame.f_locals.get("self"), "training", False):
                return  # an evaluation comes before the training
            self.begun = frame.f_locals["self"]
            local = frame.f_locals
            values = (local.get("args"), local.get("kwargs"), values)
        for tensor in self._tensors(values):
            if tensor.requires_grad or isinstance(tensor, self._torch.nn.Parameter):
                continue
            kind = (short(tensor.dtype), list(tensor.shape))
            for name, row in self._left.items():
                if (row["dtype"], row["shape"]) == kind:
                    del self._left[name]
                    yield name, tensor
                    break

    def _tensors(self, value: Any) -> Iterator[Any]:
        if isinstance(value, self._torch.Tensor):
            yield value
        elif isinstance(value, Mapping):
            for one in value.values():
                yield from self._tensors(one)
        elif isinstance(value, (list, tuple)):
            for one in value:
                yield from self._tensors(one)


def asked(here: list[Any], there: list[Any]) -> tuple[list[Any], list[Any]]:
    """The rows that a small reference says something of; the output is the nearest of its shape."""
    wanted = {(row["phase"], row["module"]) for row in there if row["phase"] != "forward"}
    mine = [row for row in here if (row["phase"], row["module"]) in wanted]
    theirs = []
    for row in there:
        if row["phase"] != "forward":
            theirs.append(row)
            continue
        shape = row["sketch"]["shape"]
        alike = [
            one
            for one in here
            if one["phase"] == "forward" and one["sketch"] and one["sketch"]["shape"] == shape
        ]
        if alike:
            nearest = min(alike, key=lambda one: _apart(row["sketch"], one["sketch"]))
            mine.append(nearest)
            theirs.append({**nearest, "sketch": row["sketch"]})
        else:
            theirs.append(row)
    return mine, theirs


def _apart(one: Any, two: Any) -> float:
    return float(sum(abs(a - b) for a, b in zip(one["at"], two["at"], strict=False)))


def named(module: Any) -> Iterator[tuple[str, Any]]:
    """Parameters and persistent buffers, by name."""
    yield from module.named_parameters()
    for path, part in module.named_modules():
        for name, buffer in part._buffers.items():
            if buffer is not None and name not in part._non_persistent_buffers_set:
                yield f"{path}.{name}".lstrip("."), buffer
