"""The launch hook, on a card that is the virtual GPU."""

# ruff: noqa: E402
from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

triton = pytest.importorskip("triton", reason="the launch hook needs the triton wheel")
import torch

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.finding import Verdict
from reefwatch.core.record import Case, Event, Record
from reefwatch.gather.instrument import Tools
from reefwatch.gather.kernels.launches import Launches
from reefwatch.judge import engine
from reefwatch.judge import kernels as judge
from tests.kernels.programs import add, generated, softmax, whole_sum
from tests.kernels.virtual_card import TARGET, card


class Sink:
    def __init__(self):
        self.facts, self.events = {}, []

    def fact(self, name, fact):
        self.facts[name] = fact

    def event(self, kind, data, *, step=None, id=None):
        self.events.append(Event(kind, data, step, id))

    def record(self):
        return Record({}, self.facts, tuple(self.events))


@pytest.fixture
def hooked():
    """Runs a function on the card under the hook; the record."""

    def run(work, damage=None, exam=60.0):
        sink, hook = Sink(), Launches()
        with card(damage):
            hook.arm(Tools(torch, sink, time.monotonic, None, {"exam": exam}))
            try:
                work()
            finally:
                hook.disarm()
        return sink.record()

    return run


def launches(record):
    return [event.data for event in record.events]


def outcome(record, code):
    check = next(one for one in engine.load("kernels") if one.code == code)
    return engine.judge_rank(check, record)


def adding(n=1000, block=256, times=1):
    def work():
        x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
        out = torch.empty_like(x)
        for _ in range(times):
            add[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
        assert torch.equal(out, x + y)

    return work


def test_a_right_kernel_is_held_by_the_interpreter_and_other_warps(hooked):
    record = hooked(adding())
    (row,) = launches(record)
    witnesses = row["subjects"][TARGET]["witnesses"]
    assert {one["kind"] for one in witnesses} == {"interpreter", "warps"}
    assert all(one["agrees"] for one in witnesses)
    assert outcome(record, "KERN001").verdict is Verdict.HELD


def test_only_first_launches_are_examined_and_all_are_counted(hooked):
    record = hooked(adding(times=5))
    assert len(launches(record)) == 2
    matrix = Case(record).value("kernels.matrix")
    assert (matrix["launches"], matrix["examined"]) == (5, 2)


def test_a_large_grid_is_sampled_and_only_what_was_written_is_compared(hooked):
    record = hooked(adding(n=20_000, block=64))
    (row,) = launches(record)
    told = next(w for w in row["subjects"][TARGET]["witnesses"] if w["kind"] == "interpreter")
    assert "programs" in told["name"]
    assert told["agrees"]
    assert 20 * 64 <= told["of"] <= 27 * 64


def test_a_wrong_value_needs_a_second_witness(hooked):
    """Launches of 4 warps are damaged; the interpreter and 2 warps agree on the right result."""

    def damage(compiled, contents):
        if compiled.warps == 4:
            contents[2][:4] = 255

    def work():
        x, y = torch.randn(100, device="cuda"), torch.randn(100, device="cuda")
        add[(1,)](x, y, torch.empty_like(x), 100, BLOCK=128)

    record = hooked(work, damage)
    (said,) = judge.verdicts(Case(record))
    assert said.verdict is Verdict.BROKEN
    assert "interpreter" in said.reason and "warps" in said.reason


def test_candidates_that_disagree_are_named(hooked):
    def work():
        x, out = torch.randn(4, 700, device="cuda"), torch.empty(4, device="cuda")
        whole_sum[(4,)](x, out, 700)

    record = hooked(work)
    told = outcome(record, "KERN004")
    assert told.verdict is Verdict.BROKEN
    assert any("BLOCK=512" in finding.message for finding in told.findings)


def test_candidates_that_agree(hooked):
    def work():
        x = torch.randn(6, 200, device="cuda")
        out = torch.empty_like(x)
        softmax[(6,)](x, out, 200)
        torch.testing.assert_close(out, torch.softmax(x, 1))

    record = hooked(work)
    kinds = {w["kind"] for row in launches(record) for w in row["subjects"][TARGET]["witnesses"]}
    assert "candidate" in kinds
    assert outcome(record, "KERN004").verdict is Verdict.HELD


def test_a_kernel_of_inductors_is_examined(hooked, monkeypatch):
    """Inductor's tuner reduced to what the hook reads of it, and to its launch."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    config = triton.Config({"XBLOCK": 256}, num_warps=4, num_stages=1)

    def launch(tuner, x, y, out, n, *, stream, **kwargs):
        block = tuner.launchers[0].config.kwargs["XBLOCK"]
        generated[(triton.cdiv(n, block),)](x, y, out, n, XBLOCK=block, num_warps=4)

    monkeypatch.setattr(CachingAutotuner, "run", launch)

    def work():
        tuner = CachingAutotuner.__new__(CachingAutotuner)
        vars(tuner).update(
            fn=generated,
            configs=[config],
            inductor_meta={"grid_type": "Grid1D"},
            triton_meta={"constants": {}},
            launchers=[SimpleNamespace(config=config)],
        )
        x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
        out = torch.empty_like(x)
        tuner.run(x, y, out, 1000, stream=0)
        assert torch.equal(out, x + y)

    (row,) = launches(hooked(work))
    assert row["name"] == "generated"
    assert row["grid"] == [4, 1, 1]
    told = row["subjects"][TARGET]["witnesses"]
    assert {one["kind"] for one in told} == {"interpreter", "warps"}
    assert all(one["agrees"] for one in told)


def test_nothing_launched_is_unproven(hooked):
    record = hooked(lambda: None)
    assert isinstance(record.fact("kernels.launches"), Unknown)
    assert outcome(record, "KERN001").verdict is Verdict.UNPROVEN


def test_on_a_card_nothing_is_observed(hooked):
    record = hooked(adding())
    assert isinstance(record.fact("kernels.launches"), Evidence)
    assert outcome(record, "KERN002").verdict is Verdict.UNPROVEN
