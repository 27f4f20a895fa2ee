"""CPU tensors where code asks for a card, and all as it was afterwards."""

from __future__ import annotations

import torch

from reefwatch.experiments.kernels.pose import Pose


def test_tensors_answer_as_if_they_lay_on_the_card() -> None:
    with Pose(torch, "gfx1100"):
        x = torch.randn(3, device="cuda")
        assert x.is_cuda and not x.is_cpu
        assert x.device == torch.device("cuda", 0)
        for y in (
            torch.empty_like(x, device=x.device),
            torch.zeros(2, device=x.device),
            x.new_empty(2, device="cuda:0"),
            x.to("cuda"),
            x.cuda(),
            torch.tensor([1.0], device=0),
            torch.arange(3, device=torch.device("cuda")),
        ):
            assert y.device.type == "cuda"
            assert (y + 0).sum() is not None  # computed where the memory really is


def test_backward_sees_the_card_too() -> None:
    seen = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            seen.append((x.is_cuda, torch.empty_like(x, device=x.device).is_cuda))
            return 2 * x * grad

    with Pose(torch, "gfx1100"):
        x = torch.randn(3, device="cuda", requires_grad=True)
        Square.apply(x).sum().backward()
    assert seen == [(True, True)]


def test_questions_about_the_card_have_answers() -> None:
    with Pose(torch, "gfx942"):
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_properties(0).gcnArchName == "gfx942"
        assert torch.cuda.get_device_properties(0).warp_size == 64
        assert torch.cuda.get_device_capability() == (9, 4)
        assert torch.version.hip
        with torch.cuda.device(0):
            torch.cuda.synchronize()
        model = torch.nn.Linear(3, 2).cuda().to("cuda")
        assert model(torch.ones(1, 3, device="cuda")).shape == (1, 2)
        assert isinstance(torch.Generator(device="cuda"), torch.Generator)


def test_all_is_put_back() -> None:
    names = ("empty", "zeros", "Generator", "set_default_device")
    before = {name: getattr(torch, name) for name in names}
    available, hip = torch.cuda.is_available(), torch.version.hip
    with Pose(torch, "gfx1100"):
        pass
    x = torch.ones(2)
    assert not x.is_cuda and x.device.type == "cpu"
    assert {name: getattr(torch, name) for name in names} == before
    assert (torch.cuda.is_available(), torch.version.hip) == (available, hip)
    assert "device" not in vars(torch.Tensor)


def test_all_is_put_back_after_an_error() -> None:
    try:
        with Pose(torch, "gfx1100"):
            raise KeyError
    except KeyError:
        pass
    assert not torch.ones(1).is_cuda
