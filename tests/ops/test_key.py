"""On a dispatch key the layer changes no bit, also of ops that ask whether a mode is on."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from reefwatch.gather import key


def prod_backward():
    x = torch.randn(7, 5, requires_grad=True)
    x.prod(dim=0).sum().backward()
    return x.grad


def folded_matmul():
    with torch.no_grad():
        return torch.randn(1, 33, 17) @ torch.randn(5, 17, 29)


def svdvals():
    with torch.no_grad():
        return torch.linalg.svdvals(torch.randn(9, 6))


def hfft():
    with torch.inference_mode():
        return torch.fft.hfftn(torch.randn(4, 6, dtype=torch.complex64))


def pinv_in_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        return torch.linalg.pinv(torch.randn(5, 5))


@pytest.mark.parametrize(
    "work",
    [prod_backward, folded_matmul, svdvals, hfft, pinv_in_autocast],
    ids=lambda f: f.__name__,
)
def test_ops_that_ask_for_a_mode_have_the_bits_of_unwatched_ones(key_rig, work):
    def told():
        torch.manual_seed(3)
        result = work()
        return result.dtype, result.view(torch.uint8).tolist()

    plain = told()
    with key_rig as listener:
        watched = told()
    assert watched == plain
    assert listener.calls
    assert not key_rig.layer.unseen


def test_pinv_in_autocast_has_another_dtype_under_a_mode(mode_rig):
    """What the key is for; when this fails, decision 0004 has to be written anew."""
    plain = pinv_in_autocast()
    with mode_rig:
        watched = pinv_in_autocast()
    assert (plain.dtype, watched.dtype) == (torch.bfloat16, torch.float32)


class Mine(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: Mine([1.0, 2.0]),
        lambda: Mine(torch.ones(2)),
        lambda: torch.ones(2).as_subclass(Mine),
        lambda: torch.Tensor._make_subclass(Mine, torch.ones(2)),
        lambda: Mine(torch.UntypedStorage(8)),
        lambda: torch.nn.Parameter(torch.ones(2)),
        lambda: torch.nn.UninitializedParameter(),
    ],
)
def test_tensor_subclasses_are_made_as_without_the_layer(key_rig, make):
    plain = make()
    with key_rig:
        watched = make()
    assert type(watched) is type(plain)


SUBCLASS = """
import time, torch
from reefwatch.gather import key
from reefwatch.gather.patches import Patches
class Layer:
    ahead = None
    seconds, seen = 0.0, []
    def observe(self, func, *rest):
        self.seen.append(str(func))
eye, patches = key.find(torch, time.perf_counter), Patches()
eye.follow_classes(patches, lambda: None)
eye.enter(Layer())
torch.empty(3)
class Mine(torch.Tensor):
    pass
print(Mine(2, 3).shape, Mine().shape)
torch.empty(3)
eye.leave()
patches.restore()
print(Layer.seen, "__init_subclass__" in vars(torch.Tensor))
"""


def test_empty_is_seen_until_a_subclass_is_defined():
    done = subprocess.run(
        [sys.executable, "-c", SUBCLASS], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    made, seen = done.stdout.splitlines()
    assert made == "torch.Size([2, 3]) torch.Size([0])"
    assert seen == "['aten.empty.memory_format'] False"


def test_a_program_that_compiles_is_looked_at_through_a_mode(key_rig):
    depth = torch._C._len_torch_dispatch_stack
    with key_rig as listener:
        torch.ones(2)
        assert depth() == 0
        key_rig.layer.yields(True)
        assert depth() == 1
        torch.zeros(2)
    assert depth() == 0
    assert listener.names() == ["aten.ones.default", "aten.zeros.default"]


def test_a_step_that_cannot_be_left_is_not_looked_at_further(key_rig):
    with key_rig as listener:
        key_rig.layer.yields(False)
        torch.zeros(2)
    assert listener.calls == []


def test_a_second_layer_takes_a_mode_and_both_see(key_rig, mode_rig):
    from reefwatch.gather.ops import OpLayer

    other = OpLayer(mode_rig.tools, [mode_rig.listener])
    with key_rig as listener:
        other.enter(0)
        torch.ones(2)
        other.leave()
    assert listener.names() == mode_rig.listener.names() == ["aten.ones.default"]


def test_the_key_is_off_when_the_layer_is_left(key_rig):
    ours = torch._C._dispatch_key_parse(key.KEY)
    with key_rig:
        assert torch._C._dispatch_tls_is_dispatch_key_included(ours)
    assert not torch._C._dispatch_tls_is_dispatch_key_included(ours)


def test_settle_takes_off_what_torch_has_put_back(key_rig):
    ours = torch._C._dispatch_key_parse(key.KEY)
    with torch.inference_mode():
        key_rig.layer.enter(0)
    key.settle()  # the end of inference mode put back the set without the key
    torch.ones(2)
    with torch.inference_mode():
        key_rig.layer.leave()
    assert torch._C._dispatch_tls_is_dispatch_key_included(ours)  # and here, the one with it
    key.settle()
    assert not torch._C._dispatch_tls_is_dispatch_key_included(ours)
    assert key_rig.listener.names() == ["aten.ones.default"]


def test_a_mode_or_a_class_that_dispatches_makes_it_a_mode(key_rig):
    from reefwatch.gather import key as keys

    assert not keys.is_in_use(torch)

    class Quiet(TorchDispatchMode):
        pass

    with Quiet():
        assert keys.is_in_use(torch)
        with key_rig:
            assert torch._C._len_torch_dispatch_stack() == 2
