"""What changes from step to step: autocast as the script has it, without it, and at its best.

- `asked`: nothing is touched.
- `fp32`: each autocast region is entered switched off.
- `best`: inside the regions autocast's fp32 list is lifted, `.float()` and `.to(float32)` leave a
  16-bit tensor as it is, and weights and buffers are 16-bit copies, made once a step; their
  gradients are added to those of the fp32 weights when the backward pass is over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from reefwatch.gather.patches import Patches
from reefwatch.gather.precision.replay import Kernels
from reefwatch.gather.regions import Regions

ASKED, PLAIN, BEST = "asked", "fp32", "best"


class Asked:
    """The script as it is."""

    name = ASKED

    def put(self) -> None:
        """A step begins."""

    def after_backward(self) -> None:
        """A backward pass is over."""

    def remove(self) -> None:
        """The step is over."""


class Plain(Asked):
    """Everything that autocast would cast stays as it is."""

    name = PLAIN

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._patches = Patches()

    def put(self) -> None:
        self._patches.replace(self._torch.autocast, "__enter__", self._enter)

    def _enter(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def __enter__(context: Any) -> Any:
            on, context._enabled = context._enabled, False
            try:
                return original(context)
            finally:
                context._enabled = on

        return __enter__

    def remove(self) -> None:
        self._patches.restore()


class Best(Asked):
    """All of the region in 16 bits."""

    name = BEST

    def __init__(
        self,
        torch: Any,
        device: str,
        dtype: str,
        regions: Regions,
        modules: Any,
        wide: Iterable[str],
    ) -> None:
        self._torch = torch
        self._low = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
        self._kernels = Kernels(torch, device)
        self._wide = [(name, torch.library.fallthrough_kernel) for name in wide]
        self._regions = regions
        self._modules = modules
        self._patches = Patches()
        self._swapped: list[tuple[dict[str, Any], str, Any]] = []
        self._pairs: list[tuple[Any, Any]] = []

    def put(self) -> None:
        tensor = self._torch.Tensor
        self._kernels.put(self._wide)
        self._patches.replace(tensor, "float", self._float)
        self._patches.replace(tensor, "to", self._to)
        self._swap()

    def _swap(self) -> None:
        torch = self._torch
        copies: dict[int, Any] = {}
        for _, module in self._modules.named():
            for held in (module._parameters, module._buffers):
                for name, own in held.items():
                    if own is None or own.dtype is not torch.float32:
                        continue
                    copy = copies.get(id(own))
                    if copy is None:
                        copy = own.detach().to(self._low)
                        if held is module._parameters:
                            copy = torch.nn.Parameter(copy, requires_grad=own.requires_grad)
                            if own.requires_grad:
                                self._pairs.append((own, copy))
                        copies[id(own)] = copy
                    self._swapped.append((held, name, own))
                    held[name] = copy

    def after_backward(self) -> None:
        pairs, self._pairs = self._pairs, []
        self._unswap()
        with self._torch.no_grad():
            for own, copy in pairs:
                if copy.grad is not None:
                    grad = copy.grad.to(own.dtype)
                    own.grad = grad if own.grad is None else own.grad.add_(grad)
                    copy.grad = None

    def _unswap(self) -> None:
        swapped, self._swapped = self._swapped, []
        for held, name, own in swapped:
            held[name] = own

    def remove(self) -> None:
        self._unswap()
        self._pairs = []
        self._patches.restore()
        self._kernels.remove()

    def _lifted(self, tensor: Any) -> bool:
        if tensor.dtype is not self._low:
            return False
        return any(region for _, region in self._regions.here.now.values())

    def _float(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def as_float(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            return tensor if self._lifted(tensor) else original(tensor, *args, **kwargs)

        return as_float

    def _to(self, original: Callable[..., Any]) -> Callable[..., Any]:
        wide = self._torch.float32

        @functools.wraps(original)
        def to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            asked = kwargs.get("dtype") is wide or (args and args[0] is wide)
            if asked and len(args) + len(kwargs) == 1 and self._lifted(tensor):
                return tensor
            return original(tensor, *args, **kwargs)

        return to
