"""The data loader as the training loop sees it: how long each batch was waited for."""

from __future__ import annotations

from threading import get_ident as _get_ident
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.gather.instrument import Tools

_KEY = "perf.feed"


class Wait:
    """What one thread waited for. `samples` is 0 when the size of its batches is not known."""

    __slots__ = ("_began", "_depth", "_yielded", "batches", "samples", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.batches = 0
        self.samples = 0
        self._depth = 0
        self._began = 0.0
        self._yielded = 0

    def begin(self, now: float, yielded: int) -> None:
        self._depth += 1
        if self._depth == 1:  # a dataset that draws from a loader of its own waits only once
            self._began, self._yielded = now, yielded

    def end(self, now: float, yielded: int, size: int) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return
        self.seconds += now - self._began
        if yielded > self._yielded:  # else the epoch ended, or the dataset raised
            self.batches += 1
            self.samples += size


class Feed:
    """One per watch, shared by the instruments that need it; observes the loader's iterator once.

    The batches themselves are not looked at: their size is what the sampler was built with.
    """

    def __init__(self, tools: Tools) -> None:
        self._clock = tools.clock
        self._waits: dict[int, Wait] = {}
        self.workers: int | None = None
        self.pin_memory: bool | None = None
        self.trouble: Unknown | None = None
        """Why the loader is not watched."""
        self._observe(tools)

    @classmethod
    def of(cls, tools: Tools) -> Feed:
        feed = tools.options.get(_KEY)
        if not isinstance(feed, cls):
            feed = tools.options[_KEY] = cls(tools)
        return feed

    def here(self) -> Wait:
        """What the calling thread has waited for so far."""
        return self._waits.setdefault(_get_ident(), Wait())

    def batches(self) -> int:
        """Batches of all threads."""
        return sum(wait.batches for wait in tuple(self._waits.values()))

    def _observe(self, tools: Tools) -> None:
        patches = tools.options.get("patches")
        if patches is None:
            self.trouble = Unknown("the data loader was not watched: nothing may be observed")
            return
        try:
            owner = tools.torch.utils.data.dataloader._BaseDataLoaderIter
            patches.observe(owner, "__next__", self._before, self._after)
        except AttributeError as error:
            self.trouble = Unknown(f"this torch has no data loader iterator as known here: {error}")

    def _before(self, iterator: Any) -> None:
        self.here().begin(self._clock(), getattr(iterator, "_num_yielded", 0))

    def _after(self, iterator: Any) -> None:
        now = self._clock()
        wait = self.here()
        wait.end(now, getattr(iterator, "_num_yielded", 0), _size(iterator))
        self.workers = getattr(iterator, "_num_workers", None)
        self.pin_memory = getattr(iterator, "_pin_memory", None)


def _size(iterator: Any) -> int:
    """Samples in a full batch; 0 when the sampler does not say."""
    size = getattr(getattr(iterator, "_index_sampler", None), "batch_size", None)
    return size if isinstance(size, int) else 0
