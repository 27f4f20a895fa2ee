"""Children of `torch.multiprocessing.spawn` get a watch of their own."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_SPAWN = "torch.multiprocessing.spawn"
_OPENER = "reefwatch.api:watch_child"
"""What opens a watch in a child. Gather cannot import it: api stands above."""


class Spawned:
    """Stands in for `torch.multiprocessing.spawn._wrap` in the parent.

    Pickled for a child, it takes along what the child needs to open its own watch. A child that
    cannot be watched (another interpreter, Reefwatch not on its path) gets the plain function: the
    pickle is then torch's own, by name. Forked children share our memory and run as they are.
    """

    def __init__(self, original: Callable[..., Any], plan: dict[str, Any]) -> None:
        functools.update_wrapper(self, original)  # its module and name: see __reduce__
        self.original = original
        self.plan = plan
        self.spawned = 0
        self.watched = 0

    @staticmethod
    def original_of(wrap: Any) -> Callable[..., Any]:
        """Torch's own function, also where a watch of this process stands in for it."""
        while isinstance(wrap, Spawned):
            wrap = wrap.original
        return wrap  # type: ignore[no-any-return]

    def __call__(self, fn: Any, i: int, args: Any, error_file: str) -> Any:
        return self.original(fn, i, args, error_file)

    def __reduce__(self) -> Any:
        self.spawned += 1
        if not _child_can_import():
            return "_wrap"
        self.watched += 1
        return _revive, (json.dumps({**self.plan, "nprocs": _siblings()}),)


class Watched:
    """What a child calls instead of `_wrap`: open a watch, run the function, close it."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan

    def __call__(self, fn: Any, i: int, args: Any, error_file: str) -> Any:
        close = _open(self.plan, i)
        original = Spawned.original_of(import_module(_SPAWN)._wrap)
        code, name, trace = 0, None, ""
        try:
            return original(fn, i, args, error_file)
        except BaseException as error:
            code = error.code if isinstance(error, SystemExit) else 1  # type: ignore[assignment]
            name, trace = type(error).__name__, _trace(error)
            raise
        finally:
            if close is not None:
                close({"code": code, "exception": name, "trace": trace})


def _trace(error: BaseException) -> str:
    """The traceback of what the function raised; torch ends the child with a SystemExit over it."""
    told = error.__context__ if isinstance(error, SystemExit) else error
    if not isinstance(told, Exception):
        return ""
    from reefwatch.gather import tracebacks

    return tracebacks.in_text(told)


def _siblings() -> int:
    """How many children torch is starting together; 0 when that cannot be told.

    The child is being pickled: torch's `start_processes` is on the stack, and knows.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "start_processes" and frame.f_globals["__name__"] == _SPAWN:
            count = frame.f_locals.get("nprocs")
            return count if isinstance(count, int) else 0
        frame = frame.f_back  # type: ignore[assignment]
    return 0


def _revive(plan: str) -> Any:
    return Watched(json.loads(plan))


def _open(plan: dict[str, Any], index: int) -> Callable[[dict[str, Any]], None] | None:
    """Open the child's watch; None (the child then runs unwatched) when that fails."""
    try:
        module, _, name = _OPENER.partition(":")
        close: Callable[[dict[str, Any]], None] = getattr(import_module(module), name)(plan, index)
        return close
    except Exception:
        return None


def _child_can_import() -> bool:
    """True when a spawned child runs this interpreter and finds Reefwatch on the path it gets."""
    try:
        from multiprocessing import spawn

        if os.fsdecode(spawn.get_executable()) != sys.executable:
            return False
        finders: list[Any] = sys.meta_path
        return any(finder.find_spec("reefwatch", None) for finder in finders)
    except Exception:
        return False


def install(patches: Any, plan: dict[str, Any]) -> Callable[[], dict[str, int]]:
    """Replace torch's `_wrap` through `patches`; what is returned counts the children so far.

    To be called when torch is there.

    `plan` is JSON: what `api.watch_child` needs to open a watch in the child.
    """
    made: list[Spawned] = []

    def make(original: Callable[..., Any]) -> Spawned:
        made.append(Spawned(original, plan))
        return made[-1]

    # torch.multiprocessing has a function of the same name, so the module is had by its name
    patches.replace(import_module(_SPAWN), "_wrap", make)

    def count() -> dict[str, int]:
        return {
            "spawned": sum(one.spawned for one in made),
            "watched": sum(one.watched for one in made),
        }

    return count
