"""Mutation operators: each makes one matmul or convolution module fall back to fp32, silently.

From outside nothing tells: same dtype in, same dtype out. Lines marked `# fault` are where the
product is called from, so where a finding has to point; of a product that another thread runs,
where its result is taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

FAULT_LINES = {
    number
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1)
    if "  # fault" in line
}


def is_site(module: nn.Module) -> bool:
    """True for the modules that a fault can be put into."""
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)):
        return True
    # MultiheadAttention hands its out_proj's weight to a functional call and never calls it
    if isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear):
        return False
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _weight(module: nn.Module) -> torch.Tensor:
    """The weight as `F.linear` wants it (transformers' Conv1D keeps it the other way round)."""
    return module.weight.t() if type(module).__name__ == "Conv1D" else module.weight


def _bias(module: nn.Module, to: torch.dtype) -> torch.Tensor | None:
    return None if module.bias is None else module.bias.to(to)


def _plain(module: nn.Module, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    weight, bias = _weight(module).to(dtype), _bias(module, dtype)
    x = x.to(dtype)
    if isinstance(module, nn.ConvTranspose2d):
        return F.conv_transpose2d(x, weight, bias, module.stride, module.padding)  # fault
    if isinstance(module, nn.Conv1d):
        return F.conv1d(x, weight, bias, module.stride, module.padding)  # fault
    if isinstance(module, nn.Conv2d):
        same = (module.stride, module.padding, module.dilation, module.groups)
        return F.conv2d(x, weight, bias, *same)  # fault
    return F.linear(x, weight, bias)  # fault


def region(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A nested region that switches autocast off."""
    with torch.autocast("cpu", enabled=False):
        return _plain(module, x, torch.float32).to(torch.bfloat16)


def double(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """fp64 operands, which autocast never touches."""
    return _plain(module, x, torch.float64).to(torch.bfloat16)


class _Wide(torch.autograd.Function):
    """Both passes in fp32, without `custom_fwd`; autocast switched off by hand."""

    @staticmethod
    def forward(ctx, x, weight, bias, call, back):
        ctx.save_for_backward(x, weight)
        ctx.back = back
        with torch.autocast("cpu", enabled=False):
            return call(x.float(), weight.float(), bias).to(torch.bfloat16)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        dx, dw = ctx.back(x.float(), weight.float(), grad.float())
        rest = (
            tuple(range(grad.dim() - 1)) if ctx.back is _linear_back else (0, *range(2, grad.dim()))
        )
        db = grad.float().sum(rest) if ctx.needs_input_grad[2] else None
        return dx.to(x.dtype), dw, db, None, None


def _linear_back(x, weight, grad):
    dx = grad @ weight  # fault
    dw = grad.flatten(0, -2).t() @ x.flatten(0, -2)  # fault
    return dx, dw


def function(module: nn.Module, x: torch.Tensor) -> torch.Tensor | None:
    """A custom autograd.Function in fp32."""
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)):
        return None

    def call(x, weight, bias):
        return F.linear(x, weight, bias)  # fault

    return _Wide.apply(x, _weight(module), module.bias, call, _linear_back)


class _Backward(torch.autograd.Function):
    """Forward under autocast, backward in fp32: what is left out when `custom_bwd` is."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        dx, dw = _linear_back(x.float(), weight.float(), grad.float())
        db = grad.float().sum(tuple(range(grad.dim() - 1))) if ctx.needs_input_grad[2] else None
        return dx.to(x.dtype), dw, db


def backward(module: nn.Module, x: torch.Tensor) -> torch.Tensor | None:
    """Only the backward in fp32."""
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)):
        return None
    return _Backward.apply(x, _weight(module), module.bias)


class _Out(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        flat = x.float().flatten(0, -2)
        out = torch.empty(flat.shape[0], weight.shape[0])
        torch.mm(flat, weight.float().t(), out=out)  # fault
        return out.view(*x.shape[:-1], -1).to(torch.bfloat16)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        dx = grad @ weight.bfloat16()
        dw = grad.flatten(0, -2).t() @ x.flatten(0, -2).bfloat16()
        return dx.to(x.dtype), dw.float()


def out_form(module: nn.Module, x: torch.Tensor) -> torch.Tensor | None:
    """An `out=` product, whose operands autocast does not cast."""
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)):
        return None
    y = _Out.apply(x, _weight(module))
    return y if module.bias is None else y + module.bias.bfloat16()


def thread(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The forward in a thread of its own, where autocast is not on."""
    box: list[torch.Tensor] = []
    worker = threading.Thread(target=lambda: box.append(_plain(module, x, torch.float32)))
    worker.start()
    worker.join()
    return box[0].to(torch.bfloat16)  # fault: where the result is taken


class Outer:
    """The region that the step is in, so that a fault can leave it and come back."""

    now: Any = None


EFFECT = {"now": False}
"""Whether the planted fault did anything: an upcast of what is fp32 already is none."""


def upcast(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """An upcast of the input."""
    EFFECT["now"] |= x.dtype is torch.bfloat16
    x = x.float()  # fault
    return type(module).forward(module, x)


def upcast_result(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """An upcast of the result."""
    y = type(module).forward(module, x)
    EFFECT["now"] |= y.dtype is torch.bfloat16
    return y.float()  # fault


def scale(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A scale that is a vector of one fp32 element."""
    y, by = type(module).forward(module, x), torch.ones(1)
    EFFECT["now"] |= y.dtype is torch.bfloat16
    return y * by  # fault


def mask(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """An additive mask in fp32."""
    y = type(module).forward(module, x)
    EFFECT["now"] |= y.dtype is torch.bfloat16
    hidden = torch.zeros(y.shape[-1])
    return y + hidden  # fault


def table(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A position table in fp32."""
    EFFECT["now"] |= x.dtype is torch.bfloat16
    angles = torch.arange(x.shape[-1]) * 1e-3
    x = x * angles.cos()  # fault
    return type(module).forward(module, x)


def left(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The region is left for the call and entered again."""
    EFFECT["now"] = True
    Outer.now.__exit__(None, None, None)
    try:
        return _plain(module, x, torch.float32).to(torch.bfloat16)
    finally:
        Outer.now.__enter__()


def other_device(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The call is in a region for another device type, and not in the one for this."""
    EFFECT["now"] = True
    Outer.now.__exit__(None, None, None)
    try:
        with torch.autocast("cuda", torch.bfloat16):
            return _plain(module, x, torch.float32).to(torch.bfloat16)
    finally:
        Outer.now.__enter__()


Fault = Callable[[nn.Module, torch.Tensor], Any]
FAULTS: dict[str, Fault] = {
    "insert .float()": upcast,
    "result .float()": upcast_result,
    "fp32 scale": scale,
    "fp32 mask": mask,
    "fp32 table": table,
    "outside the region": left,
    "wrong device_type": other_device,
    "nested region": region,
    "fp64 operands": double,
    "custom Function": function,
    "backward only": backward,
    "out= form": out_form,
    "another thread": thread,
}


FOUND_BY = {
    "insert .float()": "PREC022",
    "result .float()": "PREC022",
    "fp32 scale": "PREC006",
    "fp32 mask": "PREC006",
    "fp32 table": "PREC006",
    "outside the region": "PREC023",
    "wrong device_type": "PREC023",
}
"""The check that names the fault; PREC001 where none is given."""


def plant(module: nn.Module, fault: Fault) -> None:
    """Put the fault in place of the module's forward."""
    module.forward = lambda x: fault(module, x)
