"""Autocast's kernels put aside for a while: its fp32 list lifted, or another device's policy.

Both change what the program computes, so both belong to experiments that are asked for by name.
Kernels are registered over torch's own in the dispatcher and taken away again, which brings back
the old ones; no function of the program is touched, and calls made in C++ are reached too.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from reefwatch.gather.patches import Patches
from reefwatch.gather.precision.policy import cuda_lists, registered

Kernel = Callable[..., Any]


class Kernels:
    """Autocast kernels of one device type, registered over torch's own until `remove`."""

    def __init__(self, torch: Any, device: str) -> None:
        self._torch = torch
        self._key = f"Autocast{device.upper()}"
        self._library: Any = None

    def put(self, kernels: Iterable[tuple[str, Any]]) -> list[str]:
        """Register kernels by op name; the names that could not be are given back."""
        from torch.library import Library

        library = Library("aten", "IMPL", self._key)
        refused = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is put over another is the point
            for name, kernel in kernels:
                try:
                    library.impl(name.removeprefix("aten::"), kernel, self._key)
                except RuntimeError:
                    refused.append(name)
        self._library = library
        return refused

    def remove(self) -> None:
        """Bring back torch's own kernels."""
        if self._library is not None:
            self._library._destroy()
            self._library = None


class Replay:
    """The CUDA and ROCm autocast policy on CPU tensors, between `put` and `remove`.

    `inside` numbers the call of a listed op that is under way, 0 outside: what is dispatched in
    it belongs to one call of the program. A region for "cuda" is made one for the CPU.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._calls = 0
        self.inside = 0
        self.lists = cuda_lists(torch)
        self.refused: list[str] = []
        self._kernels = Kernels(torch, "cpu")
        self._patches = Patches()
        key = torch._C.DispatchKey.AutocastCPU
        self._exclude = torch._C._ExcludeDispatchKeyGuard
        self._keys = torch._C.DispatchKeySet(key)

    def put(self) -> None:
        """Replay from here on."""
        torch, lists = self._torch, self.lists
        own = registered(torch, "cpu")
        fall = torch.library.fallthrough_kernel
        kernels: list[tuple[str, Any]] = [(name, fall) for name in sorted(own - lists.names)]
        kernels += [(name, self._cast(name, False)) for name in lists.low if name not in own]
        kernels += [(name, self._cast(name, True)) for name in lists.f32]
        kernels += [(name, self._unless_asked(name)) for name in lists.f32_unless_asked]
        kernels += [(name, self._append(name)) for name in lists.append]
        kernels += [(name, self._promote(name)) for name in lists.promote]
        self.refused = self._kernels.put(kernels)
        self._patches.replace(torch.autocast, "__init__", self._redirect)

    def remove(self) -> None:
        """Back to the CPU's own policy."""
        self._patches.restore()
        self._kernels.remove()

    def _redirect(self, original: Kernel) -> Kernel:
        @functools.wraps(original)
        def __init__(
            context: Any, device_type: str, dtype: Any = None, *rest: Any, **more: Any
        ) -> None:
            if device_type == "cuda":
                device_type, dtype = "cpu", dtype or self._torch.float16
            original(context, device_type, dtype, *rest, **more)

        return __init__

    def _run(self, op: Any, args: Any, kwargs: Any) -> Any:
        outer, self._calls = self.inside, self._calls + 1
        self.inside = outer or self._calls
        try:
            with self._exclude(self._keys):
                return op(*args, **kwargs)
        finally:
            self.inside = outer

    def _casting(self, op: Any, to: Any, args: Any, kwargs: Any) -> Any:
        """`op` with its eligible tensors cast; all of it is one call of the program."""
        outer, self._calls = self.inside, self._calls + 1
        self.inside = outer or self._calls
        try:
            with self._exclude(self._keys):
                args = [self._made(a, to) for a in args]
                kwargs = {name: self._made(a, to) for name, a in kwargs.items()}
                return op(*args, **kwargs)
        finally:
            self.inside = outer

    def _made(self, arg: Any, to: Any) -> Any:
        if isinstance(arg, (list, tuple)):
            return type(arg)(self._made(a, to) for a in arg)
        return arg.to(to) if self._eligible(arg) and arg.dtype is not to else arg

    def _eligible(self, arg: Any) -> bool:
        torch = self._torch
        return (
            isinstance(arg, torch.Tensor)
            and arg.is_floating_point()
            and arg.dtype is not torch.float64
        )

    def _op(self, name: str) -> Any:
        packet, _, overload = name.removeprefix("aten::").partition(".")
        return getattr(getattr(self._torch.ops.aten, packet), overload or "default")

    def _cast(self, name: str, wide: bool) -> Kernel:
        op, torch = self._op(name), self._torch

        def kernel(*args: Any, **kwargs: Any) -> Any:
            to = torch.float32 if wide else torch.get_autocast_dtype("cpu")
            return self._casting(op, to, args, kwargs)

        return kernel

    def _unless_asked(self, name: str) -> Kernel:
        op, torch = self._op(name), self._torch
        names = [argument.name for argument in op._schema.arguments]
        place = names.index("dtype")

        def kernel(*args: Any, **kwargs: Any) -> Any:
            asked = kwargs.get("dtype") is not None or (
                len(args) > place and args[place] is not None
            )
            if not asked and args and self._eligible(args[0]):
                args, kwargs = args[:place], {**kwargs, "dtype": torch.float32}
            return self._run(op, args, kwargs)

        return kernel

    def _append(self, name: str) -> Kernel:
        op, torch = self._op(name), self._torch
        wide = self._op(
            "norm.ScalarOpt_dtype" if name.endswith("Scalar") else "norm.ScalarOpt_dim_dtype"
        )

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if not self._eligible(args[0]):
                return self._run(op, args, kwargs)
            if name.endswith("Scalar"):
                args = args if len(args) > 1 else (*args, 2)
            return self._run(wide, args, {**kwargs, "dtype": torch.float32})

        return kernel

    def _promote(self, name: str) -> Kernel:
        op, torch = self._op(name), self._torch

        def kernel(*args: Any, **kwargs: Any) -> Any:
            flat = [a for arg in args for a in (arg if isinstance(arg, (list, tuple)) else (arg,))]
            high = any(self._eligible(a) and a.dtype is torch.float32 for a in flat)
            to = torch.float32 if high else torch.get_autocast_dtype("cpu")
            return self._casting(op, to, args, kwargs)

        return kernel
