"""Autocast regions are followed, and autocast works as before."""

from __future__ import annotations

import time

import pytest
import torch

from reefwatch.gather.instrument import Tools
from reefwatch.gather.precision.examine import Memory
from reefwatch.gather.regions import follow, unfollow


def cpu(regions):
    return regions.here.now.get("cpu", ("off", None))


@pytest.fixture
def regions():
    tools = Tools(torch, Memory(), time.perf_counter, None, {})
    yield follow(tools)
    unfollow(tools)
    assert torch.autocast.__enter__.__module__.startswith("torch")
    assert not hasattr(torch.autocast.__enter__, "__wrapped__")


def test_a_region_switched_off_inside_a_low_one_counts_as_inside(regions):
    assert cpu(regions) == ("off", None)
    with torch.autocast("cpu", torch.bfloat16):
        assert cpu(regions) == ("bf16", "bf16")
        with torch.autocast("cpu", enabled=False):
            assert cpu(regions) == ("off", "bf16")
            with torch.autocast("cpu", torch.float16):
                assert cpu(regions) == ("f16", "f16")
        assert cpu(regions) == ("bf16", "bf16")
    assert cpu(regions) == ("off", None)


def test_switched_off_alone_is_no_region(regions):
    with torch.autocast("cpu", enabled=False):
        assert cpu(regions) == ("off", None)


def test_an_exception_closes_the_region(regions):
    with pytest.raises(KeyError), torch.autocast("cpu", torch.bfloat16):
        raise KeyError
    assert cpu(regions) == ("off", None)
    assert not torch.is_autocast_enabled("cpu")


def test_as_decorator_and_entered_by_hand(regions):
    seen = []

    @torch.autocast("cpu", torch.bfloat16)
    def work():
        seen.append(cpu(regions))

    work()
    context = torch.autocast("cpu", torch.bfloat16)
    context.__enter__()
    seen.append(cpu(regions))
    context.__exit__(None, None, None)
    assert seen == [("bf16", "bf16")] * 2
    assert cpu(regions) == ("off", None)


def test_a_subclass_is_followed_too(regions):
    with pytest.warns(FutureWarning, match="deprecated"):
        context = torch.cpu.amp.autocast()
    with context:
        assert cpu(regions) == ("bf16", "bf16")
    assert cpu(regions) == ("off", None)


def test_entered_before_the_watch_began():
    tools = Tools(torch, Memory(), time.perf_counter, None, {})
    with torch.autocast("cpu", torch.bfloat16):
        regions = follow(tools)
        assert cpu(regions) == ("bf16", "bf16")
    regions.settle()
    assert cpu(regions) == ("off", None)
    unfollow(tools)


def test_each_thread_has_its_own(regions):
    import threading

    seen = []
    with torch.autocast("cpu", torch.bfloat16):
        worker = threading.Thread(target=lambda: seen.append(cpu(regions)))
        worker.start()
        worker.join()
    assert seen == [("off", None)]


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_scripted_code_with_autocast_still_compiles(regions):
    def scripted(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.mm(x, x)

    made = torch.jit.script(scripted)
    assert made(torch.ones(2, 2)).dtype is torch.bfloat16


def test_the_state_told_is_the_one_torch_tells(regions):
    from torch.utils._python_dispatch import TorchDispatchMode

    pairs = []

    class Compare(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            with torch._C._RestorePythonTLSSnapshot():
                pairs.append((torch.is_autocast_enabled("cpu"), cpu(regions)[0] != "off"))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 2)
    with Compare():
        torch.mm(x, x)
        with torch.autocast("cpu", torch.bfloat16):
            torch.mm(x, x)
            with torch.autocast("cpu", enabled=False):
                torch.mm(x, x)
            torch.mm(x, x)
    assert {truth for truth, _ in pairs} == {True, False}
    assert all(truth == told for truth, told in pairs)
