"""How much of the step is spent waiting for the data loader."""

from __future__ import annotations

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.perf.feed import Feed


class Loader(Instrument):
    """Waiting of the thread that trains, between step boundaries.

    The first step is left out: starting the workers belongs to the start of the run.
    """

    name = "loader"
    contract = "perf"

    def __init__(self) -> None:
        self._tools: Tools | None = None
        self._feed: Feed | None = None
        self._seen = 0.0
        self._batches = 0
        self._steps = 0
        self._plain = [0.0, 0.0, 0]
        self._examined = [0.0, 0.0, 0]

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._feed = Feed.of(tools)

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        if self._feed is None:
            return
        wait = self._feed.here()
        waited, batches = wait.seconds - self._seen, wait.batches - self._batches
        self._seen, self._batches = wait.seconds, wait.batches
        self._steps += 1
        if self._steps == 1:
            return
        total = self._examined if examined else self._plain
        total[0] += waited
        total[1] += seconds
        total[2] += batches

    def disarm(self) -> None:
        if self._tools is None or self._feed is None:
            return
        for name, fact in self._facts(self._feed).items():
            self._tools.sink.fact(name, fact)
        self._tools = self._feed = None

    def _facts(self, feed: Feed) -> dict[str, Fact]:
        if feed.trouble is not None:
            return {"perf.loader": feed.trouble, "perf.wait": feed.trouble}
        if not feed.batches():
            why = Unknown("no batch of a DataLoader was drawn in this process")
            loader = Evidence("perf.loader", False, source=why.reason)
            return {"perf.loader": loader, "perf.wait": why}
        workers = f"{feed.workers} workers" if feed.workers else "no workers"
        source = f"DataLoader, {workers}, {'pinned' if feed.pin_memory else 'pageable'} memory"
        return {
            "perf.loader": Evidence("perf.loader", True, source=source),
            "perf.wait": self._wait(feed, source),
        }

    def _wait(self, feed: Feed, source: str) -> Fact:
        which = ""
        waited, total, batches = self._plain
        if not batches:
            waited, total, batches = self._examined
            which = "; in examined steps, which are longer than others"
        if not batches or not total:
            return Unknown("no batch was drawn on the thread that trains after the first step")
        value = {
            "seconds": waited,
            "of": total,
            "batches": int(batches),
            "workers": feed.workers,
            "pin_memory": feed.pin_memory,
        }
        return Evidence("perf.wait", value, "s", source + which)
