"""Memory of the process and of the card, and who owns the peak."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from perf_stage import Clock, Sink, pretend_torch, tools

from reefwatch.gather.perf.memory import Memory

torch = pytest.importorskip("torch")
aten = torch.ops.aten


def hear(memory: Memory, call: Any) -> None:
    """As the watch does: an instrument is told of the ops that it wants to hear."""
    if memory.hears(call.func, str(call.func), call.phase):
        memory.on_op(call)


def op(func: Any, out: Any, module: str, phase: str = "forward") -> Any:
    return SimpleNamespace(func=func, out=out, module=module, phase=phase)


def test_on_the_cpu_the_owner_holds_most_bytes_at_backward() -> None:
    sink, memory = Sink(), Memory()
    memory.arm(tools(torch, sink, Clock()))
    memory.open(0)
    big, small, written = torch.zeros(1000), torch.zeros(10), torch.zeros(9000)
    hear(memory, op(aten.mm.default, big, "layers.0"))
    hear(memory, op(aten.t.default, big.view(10, 100), "views"))
    hear(memory, op(aten.add_.Tensor, written, "in place"))
    hear(memory, op(aten.mm.default, (small, None, 3), "layers.1"))
    hear(memory, op(aten.mm.default, torch.zeros(100_000), "freed"))
    hear(memory, op(aten.mm.default, torch.zeros(1_000_000), "late", phase="backward"))
    memory.before_backward(None)
    memory.close(0)
    memory.disarm()
    value = sink.value("perf.memory")
    assert (value["owner"], value["owner_bytes"], value["device"]) == ("layers.0", 4000, "cpu")
    true = psutil.Process().memory_info().rss
    assert abs(value["allocated"] - true) < 64 << 20
    assert value["peak"] >= 50 << 20 and value["reserved"] is None


def test_a_tensor_is_not_kept_alive() -> None:
    memory = Memory()
    memory.arm(tools(torch, Sink(), Clock()))
    memory.open(0)
    tensor = torch.zeros(64, 64)
    storage = weakref.ref(tensor)
    pointer = memory._weak(tensor.untyped_storage())
    memory.on_op(op(aten.mm.default, tensor, "m"))
    del tensor
    gc.collect()
    assert storage() is None and pointer.expired()
    memory.close(0)
    assert memory._born == {}


def test_no_backward_no_owner() -> None:
    sink, memory = Sink(), Memory()
    memory.arm(tools(torch, sink, Clock()))
    memory.open(0)
    memory.disarm()
    assert sink.value("perf.memory")["owner"] is None
    assert "no examined step had a backward" in sink.facts["perf.memory"].source  # type: ignore[union-attr]


def gpu(**changes: Any) -> Any:
    fake = pretend_torch(**changes)
    reductions = SimpleNamespace(StorageWeakRef=None)
    fake.multiprocessing = SimpleNamespace(reductions=reductions)
    return fake


def walk(fake: Any, memory: Memory, *allocated: tuple[str, int]) -> None:
    memory.open(0)
    for module, size in allocated:
        fake.cuda.state["allocated_bytes"]["all"]["current"] = size
        memory.on_op(op(aten.mm.default, None, module))


def test_on_a_gpu_the_owner_ran_when_most_was_allocated() -> None:
    fake, sink, clock, memory = gpu(peak=1000), Sink(), Clock(), Memory()
    memory.arm(tools(fake, sink, clock))
    walk(fake, memory, ("a", 300), ("b", 950), ("b", 999), ("c", 400))
    memory.on_step(0, 0.1, True)
    fake.cuda.state["num_alloc_retries"] = 2
    memory.disarm()
    value = sink.value("perf.memory")
    assert (value["owner"], value["owner_bytes"], value["peak"]) == ("b", 950, 1000)
    assert (value["allocated"], value["reserved"], value["retries"]) == (400, 1000, 2)


def test_a_peak_outside_the_examined_steps_has_no_owner() -> None:
    fake, sink, memory = gpu(peak=10_000), Sink(), Memory()
    memory.arm(tools(fake, sink, Clock()))
    walk(fake, memory, ("a", 300), ("b", 950))
    memory.disarm()
    assert sink.value("perf.memory")["owner"] is None
    assert "outside the examined steps" in sink.facts["perf.memory"].source  # type: ignore[union-attr]


def test_a_peak_that_the_script_resets_is_not_lost() -> None:
    fake, sink, clock, memory = gpu(peak=1000), Sink(), Clock(), Memory()
    memory.arm(tools(fake, sink, clock))
    memory.on_step(0, 0.1, False)
    fake.cuda.state["allocated_bytes"]["all"]["peak"] = 10
    clock.now += 2
    memory.on_step(1, 2.0, False)
    memory.disarm()
    assert sink.value("perf.memory")["peak"] == 1000


def test_the_allocator_is_asked_once_a_second() -> None:
    fake, clock, memory = gpu(), Clock(), Memory()
    asked: list[int] = []
    state = fake.cuda.state
    memory.arm(tools(fake, Sink(), clock))
    memory.on_step(0, 0.1, False)
    fake.cuda.memory_stats_as_nested_dict = lambda index=None: asked.append(1) or state
    for step in range(100):
        clock.now += 0.1
        memory.on_step(step, 0.1, False)
    assert 9 <= len(asked) <= 10
