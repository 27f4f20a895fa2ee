from __future__ import annotations

import time

import pytest
import torch

from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision.examine import Memory
from reefwatch.gather.regions import unfollow


class Listener(Instrument):
    """Keeps a copy of what it was told."""

    name = "listener"
    fields = ("name", "module", "file", "line", "phase", "autocast", "region", "step")

    def __init__(self):
        self.calls = []
        self.error = None

    def on_op(self, call):
        if self.error is not None:
            raise self.error
        self.calls.append({field: getattr(call, field) for field in self.fields})

    def names(self):
        return [call["name"] for call in self.calls]


class Rig:
    def __init__(self, key=True):
        self.memory = Memory()
        self.tools = Tools(torch, self.memory, time.perf_counter, None, {})
        self.listener = Listener()
        self.layer = OpLayer(self.tools, [self.listener], key=key)

    def __enter__(self):
        self.layer.enter(0)
        return self.listener

    def __exit__(self, *error):
        self.layer.leave()


def rigged(key):
    made = Rig(key)
    yield made
    made.layer.leave()
    unfollow(made.tools)


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    """Another test may have compiled something in this process."""
    monkeypatch.setattr("reefwatch.gather.ops.is_compiled", lambda torch: False)


@pytest.fixture(params=["key", "mode"])
def rig(request):
    """The layer on a dispatch key, and as a dispatch mode."""
    yield from rigged(request.param == "key")


@pytest.fixture
def mode_rig():
    yield from rigged(False)


@pytest.fixture
def key_rig():
    yield from rigged(True)
