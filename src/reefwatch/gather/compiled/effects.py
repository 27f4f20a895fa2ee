"""What a call may do outside of its tensors, held back while it is made once more."""

from __future__ import annotations

import io
import logging
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from threading import get_ident
from typing import Any

import torch

from reefwatch.gather.compiled.doors import Outside, closed

__all__ = ["Draws", "Outside", "Setting", "ambient", "held_back", "outside_autocast"]


class Draws:
    """The state of every random generator that a call may draw from."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._python = random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = numpy.random.get_state() if numpy is not None else None
        self._cuda: list[Any] = []
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self._cuda = [torch.cuda.get_rng_state(n) for n in range(torch.cuda.device_count())]

    def restore(self) -> None:
        """Put them back."""
        torch.set_rng_state(self._cpu)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        for number, state in enumerate(self._cuda):
            torch.cuda.set_rng_state(state, number)

    def drawn(self) -> bool:
        """True when something was drawn since."""
        if not torch.equal(self._cpu, torch.get_rng_state()):
            return True
        return any(
            not torch.equal(state, torch.cuda.get_rng_state(number))
            for number, state in enumerate(self._cuda)
        )


class Printed(io.StringIO):
    """Takes what the call prints, in place of stdout or stderr; other threads print as they do."""

    def __init__(self, real: Any = None) -> None:
        super().__init__()
        self._real, self._thread = real, get_ident()

    def write(self, text: str) -> int:
        if self._real is not None and get_ident() != self._thread:
            return int(self._real.write(text))
        return super().write(text)


_handle = logging.Logger.handle


def _quiet(thread: int) -> Any:
    """Takes what is logged; handlers hold files and streams of their own."""

    def handle(self: logging.Logger, record: logging.LogRecord) -> None:
        if get_ident() != thread:
            _handle(self, record)

    return handle


@contextmanager
def held_back(eager: bool) -> Iterator[Printed]:
    """A call inside prints into what is yielded. The original cannot write files either.

    Compiled code can: its backward pass is compiled when it is first needed.
    """
    printed, log = Printed(sys.stdout), logging.Logger
    kept = sys.stdout, sys.stderr, log.handle
    sys.stdout = printed
    log.handle = _quiet(get_ident())  # type: ignore[method-assign]
    if eager:
        sys.stderr = Printed(sys.stderr)
    try:
        with closed() if eager else nullcontext():
            yield printed
    finally:
        sys.stdout, sys.stderr, log.handle = kept  # type: ignore[method-assign]


@contextmanager
def ambient(eager: bool) -> Iterator[None]:
    """The program's modes are off; with `eager`, so are dynamo and autocast's cache of casts.

    A cast that is cached here would be used, with its graph, by the program itself. Hooks of saved
    tensors (activation checkpointing counts what is saved) see nothing of it.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    frames = torch._C._dynamo.eval_frame
    cached = torch.is_autocast_cache_enabled()
    prior = frames.set_eval_frame(None)
    hooks = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    with ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        if eager:
            torch.set_autocast_cache_enabled(False)
        try:
            yield
        finally:
            torch._C._autograd._saved_tensors_hooks_set_tracing(hooks)
            torch.set_autocast_cache_enabled(cached)
            frames.set_eval_frame(prior)


@contextmanager
def outside_autocast() -> Iterator[None]:
    """A backward pass is made outside of the region of its forward pass, as programs do."""
    with ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


class Setting:
    """The modes of a call: gradients, inference, autocast."""

    def __init__(self) -> None:
        self._grad = torch.is_grad_enabled()
        self._inference = torch.is_inference_mode_enabled()
        self.casts = [
            (device, torch.get_autocast_dtype(device))
            for device in ("cpu", "cuda")
            if torch.is_autocast_enabled(device)
        ]

    @contextmanager
    def again(self) -> Iterator[None]:
        """As it was then."""
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self._inference))
            if not self._inference:
                stack.enter_context(torch.set_grad_enabled(self._grad))
            for device, dtype in self.casts:
                stack.enter_context(torch.autocast(device, dtype=dtype))
            yield
