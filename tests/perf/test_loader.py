"""Waiting for the data loader."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import pytest
from perf_stage import Clock, Sink, tools

from reefwatch.gather.patches import Patches
from reefwatch.gather.perf.feed import Feed
from reefwatch.gather.perf.loader import Loader

torch = pytest.importorskip("torch")


class Slow(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    """Each sample takes a tenth of a second by the test's clock."""

    def __init__(self, clock: Clock, length: int = 12) -> None:
        self.clock = clock
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if index >= self.length:
            raise IndexError
        self.clock.now += 0.1
        return torch.zeros(2)


def run(examined: int = 0, **options: Any) -> Sink:
    sink, clock, patches, loader = Sink(), Clock(), Patches(), Loader()
    given = tools(torch, sink, clock, patches=patches, **options)
    loader.arm(given)
    last = clock.now
    for step, _ in enumerate(torch.utils.data.DataLoader(Slow(clock), batch_size=2)):
        clock.now += 0.3
        loader.on_step(step, clock.now - last, step < examined)
        last = clock.now
    loader.disarm()
    patches.restore()
    return sink


def test_the_share_of_waiting_after_the_first_step() -> None:
    sink = run()
    wait = sink.value("perf.wait")
    assert sink.value("perf.loader") is True
    assert wait["batches"] == 5
    assert wait["seconds"] == pytest.approx(5 * 0.2)
    assert wait["of"] == pytest.approx(5 * 0.5)
    assert (wait["workers"], wait["pin_memory"]) == (0, False)


def test_examined_steps_count_only_where_there_is_nothing_else() -> None:
    assert run(examined=4).value("perf.wait")["batches"] == 2
    sink = run(examined=6)
    assert sink.value("perf.wait")["batches"] == 5
    assert "examined steps, which are longer" in sink.facts["perf.wait"].source  # type: ignore[union-attr]


def test_no_loader_no_claim() -> None:
    sink, patches, loader = Sink(), Patches(), Loader()
    loader.arm(tools(torch, sink, Clock(), patches=patches))
    loader.on_step(0, 0.1, False)
    loader.disarm()
    patches.restore()
    assert sink.value("perf.loader") is False
    assert sink.reason("perf.wait") == "no batch of a DataLoader was drawn in this process"


def test_where_nothing_may_be_observed_it_is_unproven() -> None:
    sink, loader = Sink(), Loader()
    loader.arm(tools(torch, sink, Clock()))
    loader.disarm()
    assert "nothing may be observed" in sink.reason("perf.loader")


def test_a_torch_without_such_an_iterator() -> None:
    class Odd:
        utils = None

    given = tools(Odd, Sink(), Clock(), patches=Patches())
    trouble = Feed.of(given).trouble
    assert trouble is not None and "no data loader iterator as known here" in trouble.reason


def test_only_the_thread_that_trains_waits() -> None:
    sink, clock, patches, loader = Sink(), Clock(), Patches(), Loader()
    loader.arm(tools(torch, sink, clock, patches=patches))
    batches = torch.utils.data.DataLoader(Slow(clock), batch_size=2)
    thread = threading.Thread(target=lambda: list(batches))
    thread.start()
    thread.join()
    for step in range(3):
        loader.on_step(step, 0.5, False)
    loader.disarm()
    patches.restore()
    assert sink.value("perf.loader") is True
    assert "no batch was drawn on the thread that trains" in sink.reason("perf.wait")


def test_a_loader_within_a_loader_waits_once() -> None:
    sink, clock, patches, loader = Sink(), Clock(), Patches(), Loader()
    given = tools(torch, sink, clock, patches=patches)
    loader.arm(given)

    class Outer(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Any:
            yield from torch.utils.data.DataLoader(Slow(clock, 4), batch_size=1)

    list(torch.utils.data.DataLoader(Outer(), batch_size=2))
    patches.restore()
    wait = Feed.of(given).here()
    assert (wait.batches, wait.samples) == (2, 4)
    assert wait.seconds == pytest.approx(0.4)


def test_the_batches_are_the_users_own_and_errors_pass() -> None:
    given = tools(torch, Sink(), Clock(), patches=(patches := Patches()))
    loader = Loader()
    loader.arm(given)
    data = torch.utils.data.DataLoader(torch.arange(6), batch_size=4)
    assert [batch.tolist() for batch in data] == [[0, 1, 2, 3], [4, 5]]

    class Broken(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            raise RuntimeError("bad sample")

    with pytest.raises(RuntimeError, match="bad sample") as caught:
        list(torch.utils.data.DataLoader(Broken()))
    patches.restore()
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "__getitem__"
    wait = Feed.of(given).here()
    assert (wait.batches, wait.samples) == (2, 8)
    assert wait._depth == 0
