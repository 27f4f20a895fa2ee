"""Bytes of parameters, gradients and optimizer state by dtype, and the precision flags."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from reefwatch.gather.dtypes import short

Bytes = dict[str, int]


class State:
    """Totals over all optimizers and their parameters. Everything is held weakly."""

    def __init__(self) -> None:
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.param: Bytes = {}
        self.grad: Bytes = {}
        self.optimizer: Bytes = {}

    def add_optimizer(self, optimizer: Any) -> None:
        self._optimizers.add(optimizer)

    def measure(self) -> None:
        """Read all sizes; gradients are there between the backward and the next clearing."""
        params: dict[int, Any] = {}
        optimizers = list(self._optimizers)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                params.update((id(p), p) for p in group["params"])
        self.param = _sum(params.values())
        grads = [p.grad for p in params.values() if p.grad is not None]
        if grads:
            self.grad = _sum(grads)
        # one-element tensors (step counts) are left out: they say nothing of precision
        kept = [
            value
            for optimizer in optimizers
            for entry in optimizer.state.values()
            if isinstance(entry, dict)
            for value in entry.values()
            if hasattr(value, "untyped_storage") and value.numel() > 1
        ]
        if kept:
            self.optimizer = _sum(kept)

    def as_dict(self) -> dict[str, Bytes]:
        return {"param": self.param, "grad": self.grad, "optimizer": self.optimizer}


def _sum(tensors: Any) -> Bytes:
    total: Bytes = {}
    for tensor in tensors:
        dtype = short(tensor.dtype)
        total[dtype] = total.get(dtype, 0) + tensor.numel() * tensor.element_size()
    return total


_FULL = ("", "none", "ieee", "highest")
"""What the newer settings of a precision say when they lower nothing."""


def flags(torch: Any, before: dict[str, Any]) -> dict[str, Any]:
    """The flags that change precision without a dtype; one that cannot be read is its error's name.

    One that was on `before` stays on. torch raises on reading when the old and the new TF32
    settings were mixed. Whether there is a GPU is not asked: `torch.cuda.is_available` forbids
    forked children the use of CUDA.
    """
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    readers: dict[str, Callable[[], Any]] = {
        "matmul.allow_tf32": lambda: cuda.allow_tf32,
        "matmul.fp32_precision": lambda: cuda.fp32_precision,
        "matmul.fp16_reduced_reduction": lambda: cuda.allow_fp16_reduced_precision_reduction,
        "matmul.bf16_reduced_reduction": lambda: cuda.allow_bf16_reduced_precision_reduction,
        "matmul.fp16_accumulation": lambda: cuda.allow_fp16_accumulation,
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "cudnn.allow_tf32": lambda: cudnn.allow_tf32,
        "cudnn.conv.fp32_precision": lambda: cudnn.conv.fp32_precision,
        "mkldnn.matmul.fp32_precision": lambda: torch.backends.mkldnn.matmul.fp32_precision,
        "mkldnn.conv.fp32_precision": lambda: torch.backends.mkldnn.conv.fp32_precision,
        "sdp.fp16_bf16_reduction": torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed,
    }
    told: dict[str, Any] = {}
    for name, read in readers.items():
        try:
            value = read()
        except (RuntimeError, AttributeError) as error:
            value = type(error).__name__
        value = value if isinstance(value, (bool, str)) else str(value)
        on = value not in (False, *_FULL)
        told[name] = value if on else before.get(name, value)
    return told
