"""Copies of tensors that keep what they share: storage, strides and identity."""

from __future__ import annotations

from typing import Any

import torch

LOW = (torch.float32, torch.bfloat16, torch.float16)
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


class Uncopied(Exception):
    """A tensor of which no faithful copy can be made; the text says why."""


def plain(tensor: torch.Tensor) -> bool:
    """True for a tensor that a copy can stand for: no subclass, no fake, no wrapper."""
    if type(tensor) not in _PLAIN or torch._is_functional_tensor(tensor):
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which the referee computes what the run computes in `dtype`."""
    if dtype in LOW:
        return torch.float64
    return torch.complex128 if dtype == torch.complex64 else dtype


class Copies:
    """One copy for each tensor asked for; tensors that share storage have copies that do.

    With `base`, what is copied is the copy that `base` holds: the tensor as it was then. `to64`
    widens floats.
    """

    def __init__(self, base: Copies | None = None, to64: bool = False) -> None:
        self.bytes = 0
        self._base = base
        self._to64 = to64
        self._storages: dict[Any, torch.Tensor] = {}
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._made

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The copy of a tensor. Raises Uncopied."""
        made = self._made.get(id(tensor))
        if made is None:
            based = self._base is not None and tensor in self._base
            source = self._base.of(tensor) if based and self._base is not None else tensor
            made = self._made[id(tensor)] = (tensor, self._copy(source))
        return made[1]

    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """(tensor, its copy) of all that were made."""
        return list(self._made.values())

    def rebased(self) -> Copies:
        """The same copies, as what is to be copied."""
        made = Copies()
        made.bytes = self.bytes
        made._made = {id(copy): (copy, copy) for _, copy in self._made.values()}
        return made

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if not plain(tensor):
            raise Uncopied(f"a {type(tensor).__name__} takes part, a tensor of another class")
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            copy = self._values(tensor.detach())
        if isinstance(tensor, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)
        elif isinstance(tensor, torch.nn.Buffer):
            copy = torch.nn.Buffer(copy, persistent=getattr(tensor, "persistent", True))
        elif tensor.requires_grad:
            copy.requires_grad_(True)
        vars(copy).update(vars(tensor))  # marks for dynamo, and the program's own
        if tensor.is_leaf and tensor.grad is not None:
            copy.grad = self.of(tensor.grad)
        return copy

    def _values(self, tensor: torch.Tensor) -> torch.Tensor:
        strided = tensor.layout == torch.strided and tensor.device.type != "meta"
        if not strided or tensor.is_conj() or tensor.is_neg():
            copy = tensor.clone()
            return copy.to(wide(copy.dtype)) if self._to64 else copy
        storage = tensor.untyped_storage()
        key = (storage._cdata, tensor.dtype if self._to64 else None)
        flat = self._storages.get(key)
        if flat is None:
            self.bytes += storage.nbytes()
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage.clone())
            if self._to64 and tensor.dtype != wide(tensor.dtype):
                size = tensor.element_size()
                whole = whole[: storage.nbytes() // size].to(wide(tensor.dtype))
            flat = self._storages[key] = whole
        home = flat.untyped_storage()
        made = torch.empty(0, dtype=flat.dtype if self._to64 else tensor.dtype, device=flat.device)
        return made.set_(home, tensor.storage_offset(), tensor.size(), tensor.stride())
