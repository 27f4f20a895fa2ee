"""The autocast regions of each thread, followed at their two ends."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from reefwatch.core.dtypes import HALF
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Tools
from reefwatch.gather.patches import Patches

OFF: tuple[str, str | None] = ("off", None)
_KEY = "autocast regions"


class _Here(threading.local):
    """What one thread is in. `now` maps a device type to (autocast, region)."""

    def __init__(self) -> None:
        self.stack: list[tuple[int, str, bool, str]] = []
        self.now: dict[str, tuple[str, str | None]] = {}
        self.entered = 0


class Regions:
    """Follows `torch.autocast.__enter__` and `__exit__`.

    A region where autocast is switched off inside a low-precision one counts as inside it. One
    call per region is all that it costs; `torch.compile` handles the class by identity and does
    not trace what is patched here.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.here = _Here()
        self.seen: dict[tuple[str, str], int] = {}
        """How often each (device type, dtype) was entered, enabled."""
        self._patches = Patches()
        self._patches.replace(torch.autocast, "__enter__", self._enter)
        self._patches.replace(torch.autocast, "__exit__", self._exit)
        self.settle()

    def restore(self) -> None:
        self._patches.restore()

    def settle(self) -> None:
        """Take the thread's true state as the ground when no region is being followed in it."""
        here = self.here
        if any(owner for owner, *_ in here.stack):
            return
        here.stack.clear()
        for device in ("cpu", "cuda", "xpu"):
            on, dtype = autocast_state(self._torch, device)
            if on:
                here.stack.append((0, device, True, dtype))
                self._count(device, dtype)
        _refresh(here)

    def _count(self, device: str, dtype: str) -> None:
        self.seen[device, dtype] = self.seen.get((device, dtype), 0) + 1

    def _enter(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def __enter__(self_: Any) -> Any:
            result = original(self_)
            enter(self_)
            return result

        def enter(context: Any) -> None:
            try:
                here, device, on = self.here, context.device, bool(context._enabled)
                dtype = short(context.fast_dtype)
                if on and not here.stack:
                    here.entered += 1
                if on:
                    self._count(device, dtype)
                here.stack.append((id(context), device, on, dtype))
                _refresh(here)
            except Exception:  # the user's region must open whatever becomes of our notes
                pass

        return __enter__

    def _exit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __exit__(self_: Any, *error: Any) -> Any:
            leave(id(self_))
            return original(self_, *error)

        def leave(owner: int) -> None:
            here = self.here
            for n in range(len(here.stack) - 1, -1, -1):
                if here.stack[n][0] == owner:
                    del here.stack[n]
                    _refresh(here)
                    return

        return __exit__


def _refresh(here: _Here) -> None:
    now: dict[str, tuple[str, str | None]] = {}
    for _, device, on, dtype in here.stack:
        region = dtype if on and dtype in HALF else now.get(device, OFF)[1]
        now[device] = (dtype if on else "off", region)
    here.now = now


def autocast_state(torch: Any, device: str) -> tuple[bool, str]:
    """(on, dtype) of the calling thread, as torch tells it."""
    try:
        return bool(torch.is_autocast_enabled(device)), short(torch.get_autocast_dtype(device))
    except (RuntimeError, TypeError):
        return False, "other"


def follow(tools: Tools) -> Regions:
    """The regions of this watch; followed from the first call on."""
    regions: Regions | None = tools.options.get(_KEY)
    if regions is None:
        regions = tools.options[_KEY] = Regions(tools.torch)
    return regions


def unfollow(tools: Tools) -> None:
    """Put autocast back."""
    regions = tools.options.pop(_KEY, None)
    if regions is not None:
        regions.restore()
