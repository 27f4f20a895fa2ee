"""The op layer's place in the mode stack, and what it leaves alone."""

from __future__ import annotations

import os
import sys
import threading
import traceback

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from reefwatch.core.errors import Breach


class Spy(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def stack():
    return [type(mode).__name__ for mode in _get_current_dispatch_mode_stack()]


def test_lies_at_the_bottom_and_leaves_the_others_in_order(mode_rig):
    with Spy(), FakeOther():
        mode_rig.layer.enter(0)
        assert stack() == ["ReefwatchOps", "Spy", "FakeOther"]
        mode_rig.layer.leave()
        assert stack() == ["Spy", "FakeOther"]
    assert stack() == []


class FakeOther(Spy):
    pass


def test_a_mode_left_after_the_layer_came_is_the_users_own(mode_rig):
    spy = Spy()
    with spy:
        mode_rig.layer.enter(0)
        torch.ones(2) + 1
    assert stack() == ["ReefwatchOps"]
    mode_rig.layer.leave()
    assert stack() == []
    assert spy.seen == ["aten.ones.default", "aten.add.Tensor"]
    assert mode_rig.listener.names() == spy.seen


def test_leaving_twice_and_entering_twice_is_harmless(mode_rig):
    mode_rig.layer.enter(0)
    mode_rig.layer.enter(1)
    assert stack() == ["ReefwatchOps"]
    mode_rig.layer.leave()
    mode_rig.layer.leave()
    assert stack() == []


def test_an_op_is_told_with_place_and_step(rig):
    with rig as listener:
        torch.ones(2).exp()
    call = listener.calls[-1]
    assert (call["name"], call["phase"], call["step"]) == ("aten.exp.default", "setup", 0)
    assert call["file"] == __file__
    assert "torch.ones(2).exp()" in open_line(call["line"])


def open_line(number):
    with open(__file__) as file:
        return file.read().splitlines()[number - 1]


def test_modules_phases_and_backward_come_from_frames_and_sequence_numbers(rig):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rig as listener:
        x = torch.ones(2, 3)
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
    got = {(c["name"], c["module"], c["phase"]) for c in listener.calls}
    for wanted in (
        ("aten.ones.default", "", "setup"),
        ("aten.addmm.default", "0", "forward"),
        ("aten.relu.default", "1", "forward"),
        ("aten.addmm.default", "2", "forward"),
        ("aten.mm.default", "2", "backward"),
        ("aten.threshold_backward.default", "1", "backward"),
        ("aten.mm.default", "0", "backward"),
    ):
        assert wanted in got
    assert {c["phase"] for c in listener.calls if c["file"].endswith("sgd.py")} == {"optimizer"}


def test_names_of_a_second_root_begin_with_its_class(rig):
    one, two = torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.Sequential(torch.nn.ReLU())
    with rig as listener:
        two(one(torch.ones(1, 2)))
    assert list(dict.fromkeys(c["module"] for c in listener.calls)) == ["", "0", "Sequential.0"]


def test_recomputed_forward_is_charged_to_its_module(rig):
    from torch.utils.checkpoint import checkpoint

    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sigmoid())
    x = torch.ones(2, 3, requires_grad=True)
    with rig as listener:
        checkpoint(net, x, use_reentrant=False).sum().backward()
    again = [c for c in listener.calls if c["name"] == "aten.sigmoid.default"]
    assert [(c["module"], c["phase"]) for c in again] == [("1", "forward"), ("1", "backward")]


def test_ops_inside_a_wrapper_subclass_are_seen(rig):
    with rig as listener:
        pair = TwoTensor(torch.ones(2), torch.zeros(2))
        result = pair + 1
    assert isinstance(result, TwoTensor)
    assert listener.names().count("aten.add.Tensor") == 2


def test_a_function_mode_of_the_users_is_called_no_more_often(rig):
    class Count(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Count.calls += 1
            return func(*args, **(kwargs or {}))

    def work():
        Count.calls = 0
        x = torch.ones(3, requires_grad=True)
        with Count():
            (x * 2).sum().backward()
        return Count.calls

    plain = work()
    with rig:
        watched = work()
    assert watched == plain > 0


def test_a_subclass_with_torch_function_keeps_its_types(rig):
    class Mine(torch.Tensor):
        pass

    def work():
        x = torch.ones(2).as_subclass(Mine).requires_grad_()
        y = x * x
        y.sum().backward()
        return type(y), type(x.grad)

    plain = work()
    with rig:
        assert work() == plain


def test_default_device_still_reaches_the_ops(rig):
    with rig as listener, torch.device("meta"):
        made = torch.ones(2) + 1
    assert made.device.type == "meta"
    assert "aten.add.Tensor" in listener.names()


def test_an_op_that_fails_fails_as_without_the_layer(rig):
    def work():
        return torch.mm(torch.ones(2, 3), torch.ones(2, 3))

    with pytest.raises(RuntimeError) as plain:
        work()
    with pytest.raises(RuntimeError) as watched, rig:
        work()
    assert str(watched.value) == str(plain.value)
    own = [
        f for f in traceback.extract_tb(watched.value.__traceback__) if "reefwatch" in f.filename
    ]
    shown = [] if sys.version_info >= (3, 11) else ["__torch_dispatch__"]
    assert [f.name for f in own if "test" not in f.filename] == shown


def test_a_failing_listener_is_dropped_and_the_run_goes_on(rig):
    rig.listener.error = KeyError("lost")
    with rig:
        assert (torch.ones(2) + 1).sum().item() == 4
    fact = rig.memory.facts["errored.listener"]
    assert fact.value["error"] == "KeyError: 'lost'"
    assert fact.value["step"] == 0


def test_a_breach_reaches_the_users_line(rig):
    rig.listener.error = Breach("no fp32 here")
    with pytest.raises(Breach, match="no fp32 here") as caught, rig:
        torch.ones(2)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert __file__ in files


def test_nothing_of_an_op_is_kept(rig):
    with rig:
        x = torch.ones(1000)
        y = x * 2
        before = sys.getrefcount(y)
        assert before == 2
    import weakref

    gone = weakref.ref(y)
    del y
    assert gone() is None


def test_another_thread_is_not_told(rig):
    with rig as listener:
        worker = threading.Thread(target=lambda: torch.ones(3).exp())
        worker.start()
        worker.join()
    assert listener.calls == []


def test_left_from_another_thread_it_says_nothing_more(mode_rig):
    mode_rig.layer.enter(0)
    worker = threading.Thread(target=mode_rig.layer.leave)
    worker.start()
    worker.join()
    torch.ones(2)
    assert mode_rig.listener.calls == []
    torch.utils._python_dispatch._pop_mode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_not_examined(mode_rig):
    with mode_rig:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, str(stack()).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 100) == b"[]"
        os.close(read), os.close(write)
        assert stack() == ["ReefwatchOps"]


def test_higher_order_operators_run(rig):
    from torch._higher_order_ops.out_dtype import out_dtype

    x = torch.ones(2, 2, dtype=torch.int8)
    plain = out_dtype(torch.ops.aten.mm.default, torch.int32, x, x)
    with rig:
        watched = out_dtype(torch.ops.aten.mm.default, torch.int32, x, x)
    assert torch.equal(plain, watched)
    inside = any("mm" in name for name in rig.listener.names())
    assert inside or any("higher-order" in reason for reason in rig.layer.unseen)


def test_torch_func_gives_the_same(rig):
    def f(w, x):
        return torch.tanh(x @ w).sum()

    w, x = torch.randn(3, 2), torch.randn(5, 3)
    run = torch.func.vmap(torch.func.grad(f), in_dims=(None, 0))
    plain = run(w, x)
    with rig as listener:
        watched = run(w, x)
    assert torch.equal(plain, watched)
    assert listener.calls


def test_double_backward_gives_the_same(rig):
    def run():
        torch.manual_seed(0)
        x = torch.randn(4, 4, requires_grad=True)
        (g,) = torch.autograd.grad((x @ x).tanh().sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.pow(2).sum(), x)
        return h

    plain = run()
    with rig:
        watched = run()
    assert torch.equal(plain, watched)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_numbers_that_torch_keeps_as_tensors_stay_tensors(rig):
    norm = torch.nn.BatchNorm1d(4)
    traced = torch.jit.trace(norm, torch.randn(8, 4))  # counts its batches: a constant 1
    plain = str(traced.graph)
    with rig:
        assert str(traced.graph) == plain
        again = torch.jit.trace(norm, torch.randn(8, 4))
    assert again.code == traced.code
