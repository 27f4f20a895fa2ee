"""The most bytes that a step's tensors held at once, against what is known by construction."""

from __future__ import annotations

import time

import torch

from reefwatch.gather.instrument import Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision.examine import Memory
from reefwatch.gather.precision.peak import Peak

KIB = 1024


def peak_of(step):
    tools = Tools(torch, Memory(), time.perf_counter, None, {})
    peak = Peak()
    peak.arm(tools)
    layer = OpLayer(tools, [peak])
    layer.enter(0)
    try:
        step()
    finally:
        layer.leave()
    told = peak.as_dict()
    peak.clear()
    return told


def blocks(count, size=64 * KIB):
    return [torch.zeros(size, dtype=torch.uint8) for _ in range(count)]


def test_what_lives_at_once_counts_not_what_was_made():
    def step():
        for _ in range(10):
            blocks(1)
        kept = blocks(3)
        kept.append(kept[0].view(-1))  # no memory of its own
        del kept
        blocks(2)

    told = peak_of(step)
    assert told["bytes"] == 3 * 64 * KIB
    assert sum(place["bytes"] for place in told["at"]) == told["bytes"]
    assert told["at"][0]["file"] == __file__


def test_nothing_is_kept_alive():
    import weakref

    seen = []

    def step():
        seen.append(weakref.ref(torch.zeros(8)))

    peak_of(step)
    assert seen[0]() is None


def test_in_place_and_nothing_at_all():
    x = torch.zeros(1000)
    assert peak_of(lambda: x.add_(1))["bytes"] == 0
    assert peak_of(lambda: None) == {"bytes": 0, "phase": "", "at": []}
