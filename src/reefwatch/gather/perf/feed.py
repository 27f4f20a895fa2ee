"""The data loader as the training loop sees it: how long each batch was waited for."""

from __future__ import annotations

import functools
import threading
from collections import UserDict
from collections.abc import Callable
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.gather.instrument import Tools

_KEY = "perf.feed"


class Wait:
    """What one thread waited for."""

    __slots__ = ("batches", "samples", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.batches = 0
        self.samples = 0


class Feed:
    """One per watch, shared by the instruments that need it; patches the loader's iterator once."""

    def __init__(self, tools: Tools) -> None:
        self._clock = tools.clock
        self._tensor = tools.torch.Tensor
        self._waits: dict[int, Wait] = {}
        self.workers: int | None = None
        self.pin_memory: bool | None = None
        self.trouble: Unknown | None = None
        """Why the loader is not watched."""
        self._patch(tools)

    @classmethod
    def of(cls, tools: Tools) -> Feed:
        feed = tools.options.get(_KEY)
        if not isinstance(feed, cls):
            feed = tools.options[_KEY] = cls(tools)
        return feed

    def here(self) -> Wait:
        """What the calling thread has waited for so far."""
        return self._waits.setdefault(threading.get_ident(), Wait())

    def batches(self) -> int:
        """Batches of all threads."""
        return sum(wait.batches for wait in tuple(self._waits.values()))

    def _patch(self, tools: Tools) -> None:
        patches = tools.options.get("patches")
        if patches is None:
            self.trouble = Unknown("the data loader was not watched: nothing may be replaced")
            return
        try:
            owner = tools.torch.utils.data.dataloader._BaseDataLoaderIter
            patches.replace(owner, "__next__", self._timed)
        except AttributeError as error:
            self.trouble = Unknown(f"this torch has no data loader iterator as known here: {error}")

    def _timed(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        clock, note = self._clock, self._note

        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:
            began = clock()
            batch = original(iterator)
            note(iterator, batch, clock() - began)
            return batch

        return __next__

    def _note(self, iterator: Any, batch: Any, seconds: float) -> None:
        wait = self.here()
        wait.seconds += seconds
        wait.batches += 1
        try:
            wait.samples += self._size(batch)
            self.workers = int(iterator._num_workers)
            self.pin_memory = bool(iterator._pin_memory)
        except Exception:  # a batch of any type: its size is then not known
            return

    def _size(self, batch: Any, depth: int = 0) -> int:
        """The first dimension of the batch's first tensor; 0 when there is none."""
        if isinstance(batch, self._tensor):
            return int(batch.shape[0]) if batch.dim() else 0
        if depth < 3 and isinstance(batch, (tuple, list)):
            parts: Any = batch[:4]
        elif depth < 3 and isinstance(batch, (dict, UserDict)):
            parts = tuple(batch.values())[:4]
        else:
            return 0
        return next((size for part in parts if (size := self._size(part, depth + 1))), 0)
