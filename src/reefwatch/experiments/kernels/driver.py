"""A driver for Triton: compiles for AMD targets as ever, and hands launches to an examiner.

Each target is a device of its own number, so that Triton's caches keep them apart. Nothing is
linked: the "binary" that Triton keeps is the assembly text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reefwatch.experiments.kernels import pose


@dataclass(frozen=True)
class Compiled:
    """What a launcher was made for: the program and what Triton says of it."""

    src: Any
    metadata: Any
    text: str
    target: str

    @property
    def warps(self) -> int:
        """Waves of a workgroup."""
        return int(self.metadata.num_warps)

    @property
    def constants(self) -> Any:
        """Names or paths of what was compiled in."""
        return getattr(self.src, "constants", None) or {}


_NUMBERS: dict[str, int] = {}
"""Targets by the number of their device, the same for every driver of this process: Triton keeps
what it compiled by it."""

Launch = Callable[[Compiled, tuple[int, int, int], Sequence[Any]], None]


class Driver:
    """Stands for the card's driver. `launch` is called in place of every launch."""

    def __init__(self, torch: Any, targets: Sequence[str], launch: Launch) -> None:
        from triton.backends.compiler import GPUTarget

        self.torch = torch
        self.targets = tuple(targets)
        self.launch = launch
        self.target = self.targets[0]
        self._known = {
            target: GPUTarget("hip", target, pose.properties(target)[1]) for target in self.targets
        }
        self.utils = _Utils(self)

    @contextmanager
    def on(self, target: str) -> Iterator[None]:
        """Compile for another target meanwhile."""
        before, self.target = self.target, target
        try:
            yield
        finally:
            self.target = before

    # what Triton asks of a driver

    def get_current_target(self) -> Any:
        """The target that is compiled for now, as Triton's compiler takes it."""
        return self._known[self.target]

    def get_current_device(self) -> int:
        """The number under which Triton keeps what it compiled."""
        return _NUMBERS.setdefault(self.target, len(_NUMBERS))

    def set_current_device(self, device: int) -> None:
        """There is one card to choose."""

    def get_current_stream(self, device: int = 0) -> int:
        """The only stream."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Where tensors are made."""
        return self.torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """The module that stands for the device."""
        return self.torch.cuda

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """As torch poses."""
        told: tuple[int, int] = self.torch.cuda.get_device_capability()
        return told

    def get_benchmarker(self) -> Callable[..., Any]:
        """Each candidate of the autotuner runs once; times mean nothing here."""
        return bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Nothing is timed."""
        return self.torch.empty(0, dtype=self.torch.int32)

    def clear_cache(self, cache: Any) -> None:
        """Nothing is timed."""

    def assemble_tensormap_to_arg(self, tensormaps: Any, args: Any) -> Any:
        """Of older versions."""
        return args

    @property
    def launcher_cls(self) -> Callable[..., Any]:
        """Makes what launches a compiled kernel."""
        return lambda src, metadata: _Launcher(src, metadata, self.target)


def bench(call: Callable[[], Any], *args: Any, quantiles: Any = None, **kwargs: Any) -> Any:
    """In place of `triton.testing.do_bench`: one call, and a time that says nothing."""
    call()
    return [1.0] * len(quantiles) if quantiles else 1.0


class _Launcher:
    def __init__(self, src: Any, metadata: Any, target: str) -> None:
        self.src, self.metadata, self.target = src, metadata, target

    def __call__(self, x: int, y: int, z: int, stream: Any, function: Any, *rest: Any) -> None:
        from triton.runtime.driver import driver

        given = rest[len(rest) - len(self.src.signature) :]
        compiled = Compiled(self.src, self.metadata, function, self.target)
        launch: Launch = driver.active.launch  # of a later driver, when this one is gone
        launch(compiled, (int(x), int(y), int(z)), given)


class _Utils:
    def __init__(self, driver: Driver) -> None:
        from triton.compiler import compiler

        self.driver = driver
        # newer versions also ask for the largest workgroup
        self.threads = "n_max_threads" in Path(compiler.__file__).read_text(encoding="utf-8")

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """(module, function, registers, spills, threads); the function is the program's text."""
        made: tuple[Any, ...] = (name, kernel.decode(), 0, 0)
        return (*made, 1024) if self.threads else made

    def get_device_properties(self, device: int = 0) -> dict[str, Any]:
        """Limits of the device; Triton asks for LDS and multiprocessors."""
        target = self.driver.target
        units, wave, shared, name = pose.properties(target)
        return {
            "max_shared_mem": shared,
            "multiprocessor_count": units,
            "warpSize": wave,
            "arch": target,
            "max_num_regs": 65536,
            "cooperativeLaunch": 0,
            "name": name,
        }


def unlinked() -> None:
    """Have Triton's AMD backend keep the assembly text where it would assemble and link it."""
    from triton.backends import backends

    backend: Any = backends["amd"].compiler  # older versions load it as a module of its own
    backend.make_hsaco = staticmethod(lambda src, metadata, options: src.encode())
