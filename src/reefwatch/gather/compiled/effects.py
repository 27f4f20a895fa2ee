"""What a call may do outside of its tensors, held back while it is made once more."""

from __future__ import annotations

import builtins
import io
import os
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


class Outside(Exception):
    """The call does something that cannot be done twice; the text says what."""


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
    """Takes what the call prints, in place of stdout or stderr."""


_open = builtins.open


def _no_writing(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
    """Reading leaves nothing behind, and a module that is imported late may read its data."""
    if set(str(mode)) & set("wax+"):
        raise Outside("it writes a file")
    return _open(file, mode, *args, **kwargs)


def _no_process(*args: Any, **kwargs: Any) -> Any:
    raise Outside("it starts a process")


@contextmanager
def held_back(eager: bool) -> Iterator[Printed]:
    """A call inside prints into what is yielded. The original cannot write files either.

    Compiled code can: its backward pass is compiled when it is first needed.
    """
    printed = Printed()
    kept = sys.stdout, sys.stderr, builtins.open, os.system
    sys.stdout = printed
    if eager:
        sys.stderr, builtins.open, os.system = Printed(), _no_writing, _no_process
    try:
        yield printed
    finally:
        sys.stdout, sys.stderr, builtins.open, os.system = kept


@contextmanager
def ambient(eager: bool) -> Iterator[None]:
    """The program's modes are off; with `eager`, so are dynamo and autocast's cache of casts.

    A cast that is cached here would be used, with its graph, by the program itself.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    frames = torch._C._dynamo.eval_frame
    cached = torch.is_autocast_cache_enabled()
    prior = frames.set_eval_frame(None)
    with ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        if eager:
            torch.set_autocast_cache_enabled(False)
        try:
            yield
        finally:
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
