"""An uncaught exception as plain python shows it: our own frames taken out, the user's hook asked.

The order and the texts follow what CPython does in `PyErr_PrintEx` (Python/pythonrun.c).
"""

from __future__ import annotations

import contextlib
import os
import sys
from contextlib import suppress
from types import FrameType, FunctionType, TracebackType
from typing import Any

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MISSING = object()
_IMPORTLIB = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def is_ours(frame: FrameType) -> bool:
    """True for a frame of Reefwatch itself."""
    return frame.f_code.co_filename.startswith(_OURS)


def strip(error: BaseException) -> BaseException:
    """Take our frames out of an exception and of all that are chained to it or grouped in it.

    An import hook of ours keeps Python from trimming its importlib frames around it, so a run of
    such frames that holds one of ours goes as a whole.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        try:
            one.__traceback__ = _without_ours(one.__traceback__)
        except Exception:  # a class of the user's that guards its attributes
            continue
        waiting += [one.__cause__, one.__context__]
        grouped = getattr(one, "exceptions", None)
        if isinstance(grouped, (tuple, list)):
            waiting += [part for part in grouped if isinstance(part, BaseException)]
    return error


def _without_ours(first: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    run: list[TracebackType] = []

    def settle() -> None:
        if not any(is_ours(link.tb_frame) for link in run):
            kept.extend(run)
        run.clear()

    link = first
    while link is not None:
        file = link.tb_frame.f_code.co_filename
        if is_ours(link.tb_frame) or file in _IMPORTLIB:
            run.append(link)
        elif run and is_ours(run[-1].tb_frame) and file == contextlib.__file__:
            run.append(link)  # Ctrl-C came while we entered or left a context
        else:
            settle()
            kept.append(link)
        link = link.tb_next
    settle()
    after: TracebackType | None = None
    for link in reversed(kept):
        link.tb_next = after
        after = link
    return after


def exit_status(stop: SystemExit) -> int:
    """The status (0-255) that python ends with; a text is printed to stderr, as python does."""
    code: Any = stop.code
    if code is None:
        return 0
    if isinstance(code, int):
        # C takes a long and keeps its low byte; what does not fit becomes -1
        return code & 0xFF if -(2**63) <= code < 2**63 else 255
    try:
        sys.stderr.write(str(code))
        sys.stderr.write("\n")
    except Exception:  # python gives up quietly too
        pass
    return 1


def show(error: BaseException) -> int:
    """Print an uncaught exception through `sys.excepthook`, as python does; the exit status."""
    if isinstance(error, SystemExit):
        return exit_status(error)
    strip(error)
    kind, trace = type(error), error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    hook: Any = getattr(sys, "excepthook", _MISSING)
    if hook is _MISSING:
        _write("sys.excepthook is missing\n")
        sys.__excepthook__(kind, error, trace)
        return 1
    second: BaseException | None = None
    try:
        sys.audit("sys.excepthook", hook, kind, error, trace)
        hook(kind, error, trace)
    except BaseException as raised:
        second = raised
    if isinstance(second, SystemExit):
        return exit_status(second)
    if second is not None:
        strip(second)
        _write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(second), second, second.__traceback__)
        _write("\nOriginal exception was:\n")
        sys.__excepthook__(kind, error, error.__traceback__)
    return 1


def ignored(error: BaseException, where: object) -> None:
    """Print what python prints of an exception while it shuts down."""
    strip(error)
    from traceback import format_tb

    said = " on threading shutdown:" if sys.version_info >= (3, 13) else f" in: {where!r}"
    trace = "".join(format_tb(error.__traceback__))
    head = "Traceback (most recent call last):\n" if trace else ""
    lines = f"Exception ignored{said}\n{head}{trace}"
    _write(f"{lines}{type(error).__name__}: {error}\n")


def _write(text: str) -> None:
    with suppress(Exception):
        sys.stderr.write(text)


_LINKS = {
    True: "\nThe above exception was the direct cause of the following exception:\n",
    False: "\nDuring handling of the above exception, another exception occurred:\n",
}


def in_text(error: BaseException, words: str = "") -> str:
    """The traceback of an exception and its chain, without source lines; "" when it cannot be had.

    Nothing of the user's is called: an exception of a class with a `__str__` of its own is told by
    its class alone, except the last one, whose `words` were taken before.
    """
    try:
        chain: list[tuple[BaseException, bool | None]] = [(error, None)]
        seen = {id(error)}
        while len(chain) < 20:
            last = chain[-1][0]
            hidden = last.__suppress_context__
            before = last.__cause__ or (None if hidden else last.__context__)
            if before is None or id(before) in seen:
                break
            seen.add(id(before))
            chain.append((before, last.__cause__ is not None))
        parts: list[str] = []
        for one, link in reversed(chain):
            parts += _frames(one.__traceback__)
            parts.append(words if one is error and words else _named(one))
            if link is not None:
                parts.append(_LINKS[link])
        return "\n".join(parts)
    except Exception:  # a class that guards its attributes
        return ""


def _frames(link: TracebackType | None) -> list[str]:
    lines: list[str] = []
    while link is not None:
        code = link.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {link.tb_lineno}, in {code.co_name}')
        link = link.tb_next
    if len(lines) > 60:
        lines[30:-30] = [f"  [{len(lines) - 60} frames]"]
    return ["Traceback (most recent call last):", *lines] if lines else []


def _named(error: BaseException) -> str:
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    own = any(isinstance(vars(base).get("__str__"), FunctionType) for base in kind.__mro__)
    return name if own else f"{name}: {error}"[:20_000]
