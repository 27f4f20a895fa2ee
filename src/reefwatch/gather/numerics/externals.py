"""Which tensors a step was given: those that an op reads and no op of the step made.

Weights, buffers, batches, labels, masks, tables: they are told apart by the order in which ops
first read them, which is the same on every device as long as the program is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Storages:
    """A set of storages, held weakly: memory that was freed and given away again is another one."""

    def __init__(self, torch: Any) -> None:
        self._expired = torch.UntypedStorage._expired
        self._free = torch.UntypedStorage._free_weak_ref
        self._held: dict[int, int] = {}

    def add(self, address: int, storage: Any) -> None:
        if address not in self:
            self._held[address] = storage._weak_ref()

    def __contains__(self, address: int) -> bool:
        pointer = self._held.get(address)
        if pointer is None:
            return False
        if self._expired(pointer):
            self._free(self._held.pop(address))
            return False
        return True

    def take(self, other: Storages) -> None:
        """Hold what the other one held and what is still alive; the other is empty then."""
        while other._held:
            address, pointer = other._held.popitem()
            if self._expired(pointer) or address in self:
                self._free(pointer)
            else:
                self._held[address] = pointer
        for address in [a for a, p in self._held.items() if self._expired(p)]:
            self._free(self._held.pop(address))

    def clear(self) -> None:
        while self._held:
            self._free(self._held.popitem()[1])


class Externals:
    """Follows the storages of one step."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._made, self._seen = Storages(torch), Storages(torch)
        self._past = Storages(torch)

    def begin(self) -> None:
        self._past.take(self._made)
        self._seen.clear()

    def carried(self, tensor: Any) -> bool:
        """True for what an earlier step made: a hidden state, not a batch."""
        return int(tensor.untyped_storage().data_ptr()) in self._past

    def new(self, args: Any, kwargs: Any) -> Iterator[Any]:
        """Each tensor that the step was given and no op of it has read before."""
        for tensor, address, storage in self._tensors([*args, *kwargs.values()]):
            if address not in self._made and address not in self._seen:
                self._seen.add(address, storage)
                yield tensor

    def made(self, out: Any) -> None:
        """An op gave these."""
        for _, address, storage in self._tensors([out]):
            if address not in self._seen:
                self._made.add(address, storage)

    def _tensors(self, values: Any) -> Iterator[tuple[Any, int, Any]]:
        for value in values:
            if isinstance(value, self._torch.Tensor):
                try:
                    storage = value.untyped_storage()
                except (RuntimeError, NotImplementedError):  # sparse, wrapped
                    continue
                address = int(storage.data_ptr())
                if address:
                    yield value, address, storage
            elif isinstance(value, (list, tuple)):
                yield from self._tensors(value)
