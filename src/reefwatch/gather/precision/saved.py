"""What the forward keeps for the backward, by dtype and by who is to thank for it.

docs/decisions/0002: a weak reference to the storage of each output of a forward op; those that
are alive when the backward starts are counted. The memory itself is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Kept:
    """Storages made in this step's forward, held weakly. Each storage is counted once."""

    def __init__(self, torch: Any) -> None:
        self._expired = torch.UntypedStorage._expired
        self._free = torch.UntypedStorage._free_weak_ref
        self._alive: dict[int, tuple[int, str, Any, bool]] = {}

    def __bool__(self) -> bool:
        return bool(self._alive)

    def add(self, tensor: Any, dtype: str, owner: Any, forward: bool) -> None:
        """Note the storage of `tensor`, made by `owner`; counted when made in the forward."""
        storage = tensor.untyped_storage()
        pointer = storage._weak_ref()
        if pointer in self._alive:
            self._free(pointer)  # a second reference to a storage that is noted already
            return
        self._alive[pointer] = (storage.nbytes(), dtype, owner, forward)

    def owner(self, tensor: Any) -> Any:
        """Who made the storage of `tensor` in this step; None when that was not seen."""
        try:
            known = self._alive.get(tensor.untyped_storage()._cdata)
        except NotImplementedError:  # a sparse tensor has no storage of its own
            return None
        return known[2] if known is not None else None

    def alive(self) -> Iterator[tuple[int, str, Any]]:
        """(bytes, dtype, owner) of each storage of the forward that still lives."""
        for pointer, (size, dtype, owner, forward) in self._alive.items():
            if forward and not self._expired(pointer):
                yield size, dtype, owner

    def clear(self) -> None:
        for pointer in self._alive:
            self._free(pointer)
        self._alive.clear()
