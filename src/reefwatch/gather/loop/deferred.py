"""Values of scalars that a device makes, read without making the program wait for it."""

from __future__ import annotations

from typing import Any

from reefwatch.gather.loop.unseen import plain

SLOTS = 64
"""Scalars per batch; one small buffer per device holds them."""


class Deferred:
    """Scalars with a tag each, in order. On the host a value is there at once.

    On a device a value is copied into a slot of a buffer; a full or old buffer is copied to pinned
    memory behind the work that the program has queued, and read when an event says it is there.
    Nothing of the caller's is kept, and nothing waits before `finish`.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._buffer: Any = None
        self._slots: tuple[Any, ...] = ()
        self._tags: list[Any] = []
        self._flying: list[tuple[Any, Any, list[Any]]] = []
        self._ready: list[tuple[Any, float]] = []

    def push(self, scalar: Any, tag: Any) -> bool:
        """Take one value. False when it cannot be taken (a graph is being captured, a subclass)."""
        if not plain(self._torch, scalar):
            return False
        device = scalar.device
        if device.type == "cpu":
            self._ready.append((tag, float(scalar.item())))
            return True
        if device.type != "cuda" or self._torch.cuda.is_current_stream_capturing():
            return False
        if self._buffer is None or self._buffer.device != device:
            self.flush()
            self._buffer = self._torch.empty(SLOTS, dtype=self._torch.float64, device=device)
            self._slots = self._buffer.unbind()
        scalar = scalar.detach()
        self._slots[len(self._tags)].copy_(scalar if not scalar.dim() else scalar.reshape(()))
        self._tags.append(tag)
        if len(self._tags) == SLOTS:
            self.flush()
        return True

    def flush(self) -> None:
        """Send what has gathered on its way."""
        if not self._tags:
            return
        torch = self._torch
        host = torch.empty(SLOTS, dtype=torch.float64, pin_memory=True)
        host.copy_(self._buffer, non_blocking=True)
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._buffer.device))
        self._flying.append((event, host, self._tags))
        self._tags = []

    def take(self) -> list[tuple[Any, float]]:
        """(tag, value) of all that has arrived, in order."""
        while self._flying and self._flying[0][0].query():
            self._land(*self._flying.pop(0)[1:])
        ready, self._ready = self._ready, []
        return ready

    def _land(self, host: Any, tags: list[Any]) -> None:
        self._ready.extend(zip(tags, host[: len(tags)].tolist(), strict=True))

    def finish(self) -> list[tuple[Any, float]]:
        """All that is left. Waits for the device."""
        self.flush()
        for event, host, tags in self._flying:
            event.synchronize()
            self._land(host, tags)
        self._flying = []
        ready, self._ready = self._ready, []
        return ready
