"""The most memory that tensors of a step held at once, and who held it, by module and line."""

from __future__ import annotations

from typing import Any

from reefwatch.gather.instrument import Instrument, Tools

NAMED = 12
"""Places that are told."""
Place = tuple[str, str, int]


class Peak(Instrument):
    """Listens to the op layer: each op's new storages, held weakly, and which of them still live.

    Whether a storage has gone is only asked when the sum of all would be a new peak, so the cost
    stays near that of a count. Parameters, gradients and optimizer state are older than the step
    and counted apart (`base`).
    """

    name = "precision.peak"
    contract = "precision"
    wants_ops = True
    wrapped = True

    def arm(self, tools: Tools) -> None:
        torch = tools.torch
        self._tensor = torch.Tensor
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._strided = torch.strided
        self._expired = torch.UntypedStorage._expired
        self._free = torch.UntypedStorage._free_weak_ref
        self._views: dict[int, bool] = {}
        self._alive: dict[int, tuple[int, Any]] = {}
        self._now = 0
        self.bytes = 0
        """The most that was alive at once, of what the step made."""
        self.phase = ""
        self.at: dict[Place, int] = {}

    def on_op(self, call: Any) -> None:
        func, out = call.func, call.out
        views = self._views.get(id(func))
        if views is None:
            schema = getattr(func, "_schema", None)
            views = self._views[id(func)] = schema is not None and any(
                argument.alias_info for argument in schema.arguments
            )
        if views:
            return
        made = out if isinstance(out, (list, tuple)) else (out,)
        for tensor in made:
            if type(tensor) in self._plain and tensor.layout is self._strided:
                self._add(tensor, call.site)

    def _add(self, tensor: Any, site: Any) -> None:
        storage = tensor.untyped_storage()
        pointer = storage._weak_ref()
        if pointer in self._alive:
            self._free(pointer)
            if not self._expired(pointer):
                return
        size = storage.nbytes()
        self._alive[pointer] = (size, site)
        self._now += size
        if self._now > self.bytes:
            self._sweep()
            if self._now > self.bytes:
                self._note(site)

    def _sweep(self) -> None:
        gone = [pointer for pointer in self._alive if self._expired(pointer)]
        for pointer in gone:
            self._now -= self._alive.pop(pointer)[0]
            self._free(pointer)

    def _note(self, site: Any) -> None:
        self.bytes, self.phase = self._now, site.phase
        places: dict[Place, int] = {}
        for size, made_at in self._alive.values():
            key = (made_at.module, made_at.file, made_at.line)
            places[key] = places.get(key, 0) + size
        self.at = places

    def clear(self) -> None:
        """The step is over."""
        for pointer in self._alive:
            self._free(pointer)
        self._alive.clear()
        self._now = 0

    def as_dict(self) -> dict[str, Any]:
        """`{"bytes", "phase", "at": the places that held the most}`."""
        most = sorted(self.at.items(), key=lambda item: -item[1])[:NAMED]
        at = [
            {"module": module, "file": file, "line": line, "bytes": size}
            for (module, file, line), size in most
        ]
        return {"bytes": self.bytes, "phase": self.phase, "at": at}
