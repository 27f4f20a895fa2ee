"""torch poses as a machine with one AMD card whose memory is the CPU's.

Kernel wrappers ask `x.is_cuda`, `x.device`, `torch.cuda.get_device_properties` before they launch,
and make tensors with `device="cuda"`. While the pose is on, CPU tensors answer as if they lay on
`cuda:0`, and whatever asks for that device gets CPU memory. Nothing else is touched: torch's own
operations run on the CPU as ever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

_NAMES = {
    "gfx942": "AMD Instinct MI300X",
    "gfx1100": "AMD Radeon RX 7900 XTX",
    "gfx1201": "AMD Radeon RX 9070 XT",
}
UNITS = 8
"""Multiprocessors, less than any real card has: persistent kernels launch a program for each."""
_METHODS = ("to", "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor")


def properties(target: str) -> tuple[int, int, int, str]:
    """(multiprocessors, lanes of a wave, LDS bytes, name) of a target."""
    wave = 64 if target.startswith("gfx9") else 32
    return UNITS, wave, 65536, _NAMES.get(target, f"AMD {target}")


class Pose:
    """Context in which torch seems to have a card; everything is put back at its end."""

    def __init__(self, torch: Any, target: str) -> None:
        self.torch = torch
        self.target = target
        self._kept: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Pose:
        self._attributes()
        self._factories()
        self._cuda()
        return self

    def __exit__(self, *error: object) -> None:
        for owner, name, old in reversed(self._kept):
            if old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
        self._kept.clear()

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._kept.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def _attributes(self) -> None:
        torch = self.torch
        card = torch.device("cuda", 0)
        real = torch._C.TensorBase.device.__get__

        def device(tensor: Any) -> Any:
            here = real(tensor)
            return card if here.type == "cpu" else here

        self._set(torch.Tensor, "device", property(device))
        self._set(torch.Tensor, "is_cuda", property(lambda tensor: device(tensor) == card))
        self._set(torch.Tensor, "is_cpu", property(lambda tensor: False))
        self._set(torch.Tensor, "get_device", lambda tensor: 0)
        self._set(torch.Tensor, "cuda", lambda tensor, *args, **kwargs: tensor)
        self._set(torch.Tensor, "pin_memory", lambda tensor, *args, **kwargs: tensor)
        self._set(torch.nn.Module, "cuda", lambda module, *args, **kwargs: module)

    def _factories(self) -> None:
        torch = self.torch
        from torch.utils._device import _device_constructors

        made = {getattr(func, "__name__", "") for func in _device_constructors()}
        for name in sorted(made | {name for name in dir(torch) if name.endswith("_like")}):
            if callable(vars(torch).get(name)):
                self._set(torch, name, _mapped(torch, vars(torch)[name]))
        self._set(torch, "Generator", _generator(torch))
        self._set(torch, "load", _mapped(torch, torch.load))
        for name in _METHODS:
            self._set(torch.Tensor, name, _mapped(torch, getattr(torch.Tensor, name)))
        for owner, name in ((torch.nn.Module, "to"), (torch.nn.Module, "to_empty")):
            self._set(owner, name, _mapped(torch, getattr(owner, name)))
        self._set(torch, "set_default_device", lambda device: None)
        enter = torch.utils._device.DeviceContext.__init__
        self._set(
            torch.utils._device.DeviceContext,
            "__init__",
            lambda context, device: enter(context, _off_card(torch, device)),
        )

    def _cuda(self) -> None:
        torch, cuda = self.torch, self.torch.cuda
        units, wave, shared, name = properties(self.target)
        told = SimpleNamespace(
            name=name,
            gcnArchName=self.target,
            major=int(self.target[3:-2] or 9),
            minor=int(self.target[-2], 16),
            multi_processor_count=units,
            warp_size=wave,
            total_memory=16 << 30,
            shared_memory_per_block=shared,
            shared_memory_per_block_optin=shared,
            shared_memory_per_multiprocessor=shared,
            max_threads_per_multi_processor=2048,
            regs_per_multiprocessor=65536,
            L2_cache_size=6 << 20,
        )
        answers: dict[str, Any] = {
            "is_available": True,
            "is_initialized": True,
            "device_count": 1,
            "current_device": 0,
            "get_device_name": name,
            "get_device_properties": told,
            "get_device_capability": (told.major, told.minor),
            "is_bf16_supported": True,
            "init": None,
            "_lazy_init": None,
            "synchronize": None,
            "set_device": None,
            "empty_cache": None,
            "manual_seed": None,
            "manual_seed_all": None,
            "reset_peak_memory_stats": None,
            "memory_allocated": 0,
            "max_memory_allocated": 0,
            "memory_reserved": 0,
            "mem_get_info": (16 << 30, 16 << 30),
            "is_current_stream_capturing": False,
        }
        for word, answer in answers.items():
            self._set(cuda, word, functools.partial(_answer, answer))
        stream = _Nothing()
        for word in ("current_stream", "default_stream", "Stream", "stream", "Event"):
            self._set(cuda, word, lambda *args, **kwargs: stream)
        for word in ("device", "device_of", "_DeviceGuard"):
            self._set(cuda, word, lambda *args, **kwargs: stream)
        self._set(cuda, "get_rng_state", lambda *args: torch.get_rng_state())
        self._set(cuda, "set_rng_state", lambda state, *args: torch.set_rng_state(state))
        # wrappers choose their AMD branch by this
        self._set(torch.version, "hip", "6.4 (virtual)")


class _Nothing:
    """Stands for a stream, an event or a device: there is nothing to wait for."""

    cuda_stream = 0
    idx = 0

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *error: object) -> None: ...

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds; the virtual GPU has no clock."""
        return 1.0

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


_ABSENT = object()


def _answer(answer: Any, *args: Any, **kwargs: Any) -> Any:
    return answer


def _off_card(torch: Any, value: Any) -> Any:
    """The CPU in place of a device that is the card."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and value.partition(":")[0] in ("cuda", "hip"):
        return torch.device("cpu")
    return value


def _mapped(torch: Any, func: Any) -> Any:
    """`func` with every argument that names the card naming the CPU."""

    @functools.wraps(func, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        given = [_off_card(torch, value) for value in args]
        if type(kwargs.get("device")) is int:  # an index is one of the card's
            kwargs["device"] = torch.device("cpu")
        named = {name: _off_card(torch, value) for name, value in kwargs.items()}
        named.pop("pin_memory", None)
        return func(*given, **named)

    return call


def _generator(torch: Any) -> Any:
    class Generator(torch.Generator):  # type: ignore[misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, "cpu")

    return Generator
