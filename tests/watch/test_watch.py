"""The watch in this process: moments, steps, failures, strict mode, threads, forks."""

import os
import threading
import traceback

import pytest
import torch
from torch import nn
from torch.optim import optimizer as hooks

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather import catalog
from reefwatch.gather.instrument import Instrument
from reefwatch.gather.watch import Watch


class Memory:
    """A sink that keeps everything."""

    def __init__(self):
        self.facts, self.events = {}, []

    def fact(self, name, fact):
        self.facts[name] = fact

    def event(self, kind, data, *, step=None, id=None):
        self.events.append((kind, dict(data), step, id))

    def tensor(self, name, raw, dtype, shape):
        raise AssertionError("no tensor is written here")

    def value(self, name):
        fact = self.facts[name]
        assert isinstance(fact, Evidence), fact
        return fact.value


class Diary(Instrument):
    """Writes down every moment."""

    name = "diary"
    contract = "loop"
    wants_ops = True

    def __init__(self, news=10**9):
        self.rows, self.ops, self.news = [], [], news
        self.referee = None

    def arm(self, tools):
        self.referee = tools.referee
        self.rows.append("arm")

    def on_optimizer(self, optimizer):
        self.rows.append(f"built {type(optimizer).__name__} {len(optimizer.param_groups)}")

    def open(self, step):
        self.rows.append(f"open {step}")

    def close(self, step):
        self.rows.append(f"close {step}")
        return step < self.news

    def on_op(self, call):
        self.ops.append((call.step, call.name))

    def before_backward(self, loss):
        self.rows.append("backward")

    def after_backward(self, loss):
        self.rows.append("/backward")

    def before_update(self, optimizer, examined):
        self.rows.append("update")

    def after_update(self, optimizer, examined):
        self.rows.append("/update")

    def on_step(self, step, seconds, examined):
        assert seconds > 0
        self.rows.append(f"step {step}{'!' if examined else ''}")

    def disarm(self):
        self.rows.append("disarm")


@pytest.fixture
def watching():
    """Starts watches, and sees that torch is as before when they are stopped."""
    started, plain = [], surroundings()

    def start(*instruments, **settings):
        watch = Watch(Memory(), list(instruments), **settings)
        watch.start()
        started.append(watch)
        return watch, watch._gate._sink

    yield start
    for watch in started:
        watch.stop({"code": 0, "exception": None})
    assert surroundings() == plain


def surroundings():
    return (
        dict(hooks._global_optimizer_pre_hooks),
        dict(hooks._global_optimizer_post_hooks),
        torch.autograd.Variable._execution_engine,
        nn.Module.__dict__["__call__"],
        torch.compile,
        torch.optim.Optimizer.__dict__["_patch_step_function"],
        torch.amp.GradScaler.__dict__["update"],
        torch.inference_mode.__dict__["__exit__"],
        torch.autocast.__dict__["__enter__"],
        torch._C._len_torch_dispatch_stack(),
        torch._C._dispatch_tls_is_dispatch_key_included("Python"),
    )


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x)


def train(steps, model=None, optimizer=None):
    model = model or Model()
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()


def test_the_moments_of_a_plain_loop(watching):
    diary = Diary()
    watch, sink = watching(diary)
    train(5)
    watch.stop({"code": 0, "exception": None})
    cycle = ["backward", "/backward", "update", "/update"]
    expected = ["arm", "open 0", "built SGD 1"]
    for step in range(3):
        expected += [*cycle, f"close {step}", f"step {step}!", f"open {step + 1}"]
    expected[-1:] = [*cycle, "step 3", "open 4", *cycle, "close 4", "step 4!"]
    expected += ["open 5", "close 5", "disarm"]
    assert diary.rows == expected
    assert {step for step, name in diary.ops if name == "aten.addmm.default"} == {0, 1, 2, 4}
    assert sink.value("run.steps") == {"count": 5, "kind": "optimizer"}
    assert sink.value("run.exit")["code"] == 0
    assert sink.value("watch.exam")["steps"] == 4
    assert sink.value("env.device")["kind"] == "cpu"
    assert sink.value("env.torch")["version"] == torch.__version__
    assert set(sink.value("watch.cost")) == {"diary"}


def test_stop_is_idempotent(watching):
    diary = Diary()
    watch, _ = watching(diary)
    watch.stop()
    watch.stop({"code": 1, "exception": "E"})
    train(1)
    assert diary.rows.count("disarm") == 1 and "update" not in diary.rows


def test_the_exam_ends_and_the_steady_state_is_not_examined_without_a_budget(watching):
    diary = Diary(news=4)
    watch, sink = watching(diary, budget=0.0)
    train(60)
    watch.stop()
    assert sink.value("watch.exam")["ended"] == "nothing new in 20 examined steps"
    assert sink.value("watch.budget")["examined"] == 0
    assert diary.rows.count("update") == 60
    last = max(step for step, _ in diary.ops)
    assert last < 30


@pytest.mark.parametrize(
    "moment", ["arm", "on_optimizer", "open", "close", "on_op", "before_backward", "after_backward",
               "before_update", "after_update", "on_step", "disarm"]
)  # fmt: skip
def test_a_failing_instrument_is_turned_off_and_the_run_goes_on(watching, moment):
    class Bad(Diary):
        name = "bad"

    def fail(self, *args):
        self.rows.append("failed")
        raise RuntimeError("broken inside")

    setattr(Bad, moment, fail)
    Bad.release = lambda self: self.rows.append("released")
    bad, good = Bad(), Diary()
    watch, sink = watching(bad, good)
    train(6)
    watch.stop()
    error = sink.value("errored.bad")
    assert error["error"] == "RuntimeError: broken inside"
    assert error["where"].startswith(f"{moment}, test_watch.py:")
    assert bad.rows.count("failed") == 1 and bad.rows[-2:] == ["failed", "released"]
    assert good.rows.count("update") == 6 and good.rows[-1] == "disarm"
    assert sink.value("run.steps")["count"] == 6


class Strict(Diary):
    def on_op(self, call):
        if call.step == 2 and call.name == "aten.addmm.default":
            raise Breach("an op that was not claimed")


def test_a_breach_is_raised_in_the_frame_of_the_user(watching):
    watch, sink = watching(Strict(), strict={"loop"}, referee=object())
    with pytest.raises(Breach, match="not claimed") as caught:
        train(6)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:4] == ["train", "_wrapped_call_impl", "_call_impl"] and "forward" in names
    watch.stop({"code": 1, "exception": "Breach"})
    assert not [name for name in sink.facts if name.startswith("errored.")]


@pytest.mark.parametrize("strict", [set(), {"precision"}, {"loop"}, {"all"}])
def test_the_referee_is_for_the_contracts_that_are_strict(watching, strict):
    diary, referee = Diary(), object()
    watching(diary, strict=strict, referee=referee)
    assert diary.referee is (referee if strict & {"loop", "all"} else None)


@pytest.mark.parametrize("moment", ["before_backward", "after_backward", "after_update", "on_step"])
def test_a_breach_passes_at_every_moment(watching, moment):
    class Bad(Diary):
        pass

    def fail(self, *args):
        raise Breach("enough")

    setattr(Bad, moment, fail)
    watching(Bad())
    with pytest.raises(Breach, match="enough"):
        train(3)


def test_a_failing_backward_has_the_traceback_of_plain_python(watching):
    def fail():
        out = (torch.ones(3, requires_grad=True) * 2).exp()
        loss = out.square().sum()
        out.mul_(2)
        try:
            loss.backward()
        except RuntimeError:
            return traceback.format_exc()

    plain = fail()
    diary = Diary()
    watching(diary, exam=0.0, budget=0.0)
    assert fail() == plain
    assert diary.rows == ["arm", "backward", "/backward"]


@pytest.mark.parametrize("exam", [0.0, 20.0])
def test_other_failures_have_the_traceback_of_plain_python(watching, exam):
    def fail(act):
        try:
            act()
        except Exception:
            return traceback.format_exc()

    acts = [
        lambda: torch.optim.SGD([], lr=1.0),
        lambda: Model()("no tensor"),
        lambda: torch.compile(3),
        lambda: torch.autograd.grad(torch.ones(1), torch.ones(1)),
        lambda: train(1, optimizer=torch.optim.SparseAdam(Model().parameters())),
    ]
    plain = [fail(act) for act in acts]
    watching(Diary(), exam=exam, budget=0.0)
    assert [fail(act) for act in acts] == plain


def test_steps_of_a_script_without_training_are_calls_of_its_model(watching):
    diary = Diary(news=3)
    watch, sink = watching(diary, budget=0.0)
    model = Model()
    with torch.no_grad():
        for _ in range(60):
            model(torch.ones(1, 3))
            model.layer(torch.ones(1, 3))
    assert "__call__" in vars(Model)  # after the exam: on the model's own class, on no other
    assert nn.Module.__dict__["__call__"] is nn.Module._wrapped_call_impl
    watch.stop()
    assert sink.value("run.steps") == {"count": 60, "kind": "module"}
    assert "__call__" not in vars(Model)
    assert [row for row in diary.rows if row.startswith("step")][:5] == [
        "step 0!", "step 1!", "step 2!", "step 3", "step 4!"
    ]  # fmt: skip


def test_calls_of_a_class_of_torch_are_not_counted_after_the_exam(watching):
    watch, sink = watching(Diary(news=0), budget=0.0)
    model = nn.Sequential(nn.Linear(3, 2))
    for _ in range(60):
        model(torch.ones(1, 3))
    watch.stop()
    assert sink.facts["run.steps"] == Unknown("calls of the model were not counted after the exam")


def test_modes_that_move_inside_inference_mode_leave_no_key_behind(watching):
    watch, _ = watching(Diary(news=0), budget=0.0)
    model = Model()
    for _ in range(3):
        with torch.inference_mode():
            for _ in range(8):
                model(torch.ones(1, 3))
        assert torch.ones(2).sum() == 2
    watch.stop()


def test_evaluation_before_training_is_not_what_is_counted(watching):
    diary = Diary()
    watch, sink = watching(diary)
    model = Model()
    for _ in range(5):
        model(torch.ones(1, 3))
    train(7, model)
    watch.stop()
    assert sink.value("run.steps") == {"count": 7, "kind": "optimizer"}


def test_training_in_a_thread(watching):
    diary = Diary()
    watch, sink = watching(diary)
    thread = threading.Thread(target=train, args=(6,))
    thread.start()
    thread.join()
    train(2)  # what of step 6 was before its backward pass is not seen on this thread
    assert torch._C._len_torch_dispatch_stack() <= 1
    watch.stop()
    assert sink.value("run.steps")["count"] == 8
    assert {step for step, name in diary.ops if name == "aten.addmm.default"} == {0, 1, 2, 4, 5, 7}


def test_a_second_thread_that_trains_is_left_alone(watching):
    diary, turn, errors = Diary(), threading.Barrier(2), []

    def work(first):
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            turn.wait(60)
            if first:
                train(1, model, optimizer)
            turn.wait(60)
            if not first:
                train(1, model, optimizer)
        turn.wait(60)  # a thread that has ended can be followed by another

    watch, sink = watching(diary)
    threads = [threading.Thread(target=work, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    watch.stop()
    assert not errors and sink.value("run.steps")["count"] == 4
    assert diary.rows.count("update") == 4


def test_an_optimizer_stepped_inside_the_backward_pass(watching):
    diary = Diary()
    watch, sink = watching(diary)
    model = Model()
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
    for _ in range(6):
        model(torch.ones(2, 3)).sum().backward()
        assert torch._C._len_torch_dispatch_stack() <= 1
    watch.stop()
    assert sink.value("run.steps")["count"] == 6
    assert torch._C._len_torch_dispatch_stack() == 0


def test_skipped_updates_end_steps_too(watching):
    diary = Diary()
    watch, sink = watching(diary)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(10):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 3)).sum() * (float("inf") if step in (0, 4) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    watch.stop()
    assert sink.value("run.steps")["count"] == 10
    assert diary.rows.count("update") == 8


def test_an_examined_step_that_costs_too_much_is_left(watching):
    class Slow(Diary):
        def on_op(self, call):
            super().on_op(call)
            call.layer.seconds += 0.01  # as if it had taken so long

    slow = Slow()
    watch, sink = watching(slow, exam=1.0, budget=0.0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(1, model, optimizer)
    for _ in range(300):  # a long evaluation inside the second step
        model(torch.ones(1, 3))
    assert torch._C._len_torch_dispatch_stack() == 0
    assert nn.Module.__dict__["__call__"] is nn.Module._wrapped_call_impl
    train(12, model, optimizer)
    watch.stop()
    assert len(slow.ops) < 200
    assert sink.value("watch.exam")["ended"] == "the allowance was spent"
    assert sink.value("run.steps")["count"] == 13


def test_an_instrument_that_costs_more_is_opened_less_often(watching):
    class Rare(Diary):
        name = "rare"
        every = 3

    rare, always = Rare(), Diary()
    watch, _ = watching(rare, always)
    train(12)
    watch.stop()
    opened = [row for row in always.rows if row.startswith("open")]
    assert [row for row in rare.rows if row.startswith("open")] == opened[::3]
    assert {step for step, _ in rare.ops} < {step for step, _ in always.ops}


def test_a_forked_child_is_not_watched(watching):
    diary = Diary()
    watch, sink = watching(diary)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(2, model, optimizer)
    before = len(diary.rows)
    child = os.fork()
    if not child:
        code = 1
        try:
            depth = torch._C._len_torch_dispatch_stack()
            train(3, model, optimizer)
            watch.stop({"code": 9, "exception": None})
            same = len(diary.rows) == before and "run.exit" not in sink.facts
            plain = nn.Module.__dict__["__call__"] is nn.Module._wrapped_call_impl
            code = 0 if same and plain and depth == 0 and not watch.live else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    train(2, model, optimizer)
    watch.stop()
    assert sink.value("run.steps")["count"] == 4
    assert sink.value("watch.children") == {"spawned": 1, "watched": 0}


def test_compiling_is_noted(watching):
    watch, sink = watching(Diary())
    runs = []

    def backend(graph, inputs):
        return lambda *args: runs.append(1) or graph.forward(*args)

    @torch.compile(backend=backend)
    def double(x):
        return x * 2

    module = Model()
    module.compile(backend=backend)
    for _ in range(4):
        double(torch.ones(2))
        module(torch.ones(3))
    watch.stop()
    assert sink.value("watch.compile") == {"used": True, "calls": 2}
    assert len(runs) == 8
    torch._dynamo.reset()


def test_the_live_line_is_told_and_may_fail(watching):
    told = []

    def status(values):
        told.append(values)
        raise OSError("no terminal")

    watch, sink = watching(Diary(), on_status=status)
    train(4)
    watch.stop()
    assert len(told) == 1
    assert set(told[0]) == {"step", "kind", "exam", "examined", "step_seconds"}
    assert sink.value("errored.status")["error"] == "OSError: no terminal"


def test_an_instrument_that_cannot_be_made_is_an_errored_fact(watching, monkeypatch):
    monkeypatch.setattr(catalog, "CATALOG", (("loop.nothing_here", "Nothing"),))
    made = catalog.instruments({})
    watch, sink = watching(*made)
    train(2)
    watch.stop()
    assert "loop.nothing_here" in sink.value("errored.loop.nothing_here")["error"]
    assert sink.value("run.steps")["count"] == 2


def test_instruments_can_be_left_out():
    everything = catalog.instruments({})
    assert len(everything) == len(catalog.CATALOG)
    left = catalog.instruments({"without": ["perf", "loop.data"]})
    assert len(left) == len([m for m, _ in catalog.CATALOG if m[:4] != "perf" and m != "loop.data"])


def test_a_script_without_torch():
    sink = Memory()
    watch = Watch(sink, [Diary()])
    watch._import._name = "torch_that_is_not_there"
    watch.start()
    watch.stop({"code": 0, "exception": None})
    assert sink.facts["env.torch"] == Unknown("torch was not imported by the script")
    assert sink.value("run.exit")["code"] == 0


class Flushing(Diary):
    """Wants evaluations, and turns gradients off itself when it is put away."""

    def wants_glimpse(self):
        return True

    def disarm(self):
        with torch.no_grad():
            torch.ones(2).sum()


@pytest.mark.parametrize("key", [True, False], ids=["key", "mode"])
def test_what_an_instrument_does_at_the_end_is_no_moment_of_the_run(watching, monkeypatch, key):
    if not key:
        monkeypatch.setattr("reefwatch.gather.ops.find", lambda torch, clock: None)
    flushing = Flushing(news=0)
    watch, _ = watching(flushing, exam=1e-9, budget=0.02)
    train(5)
    assert watch._scheduler.ended
    watch.stop({"code": 0, "exception": None})
    seen = len(flushing.ops)
    torch.ones(2).sum()
    assert len(flushing.ops) == seen
    assert not watch._window.inside
