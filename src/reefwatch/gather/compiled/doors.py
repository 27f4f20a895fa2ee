"""Doors to the outside that the original may not go through a second time: files, processes, nets.

The interpreter asks an audit hook before it opens one, whatever function was called for it. The
hook stays until the process ends, and looks only while a call is made again, on its thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reefwatch.gather.patches import getframe


class Outside(Exception):
    """The call does something that cannot be done twice; the text says what."""


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FILES = frozenset(
    """
        os.remove os.rename os.mkdir os.rmdir os.truncate os.symlink os.link os.chmod os.chown
        os.utime os.setxattr shutil.rmtree shutil.move shutil.copyfile sqlite3.connect
    """.split()  # noqa: SIM905
)
_OTHERS = {
    "subprocess.Popen": "it starts a process",
    "os.system": "it starts a process",
    "os.fork": "it starts a process",
    "os.posix_spawn": "it starts a process",
    "os.exec": "it starts a process",
    "os.kill": "it sends a signal",
    "os.putenv": "it sets a variable of the environment",
    "os.unsetenv": "it sets a variable of the environment",
    "os.chdir": "it goes to another folder",
    "socket.connect": "it talks to the net",
    "socket.sendto": "it talks to the net",
}


class _Watch(threading.local):
    reasons: list[str] | None = None
    """What was tried since the doors were closed on this thread; None while they are open."""


_watch = _Watch()
_hooked: list[bool] = []


def _asked(event: str, args: tuple[Any, ...]) -> None:
    reasons = _watch.reasons
    if reasons is None:
        return
    why = _OTHERS.get(event, "")
    if event in _FILES or (event == "open" and _written(args)):
        why = "it writes a file"
    if why and not _importing():
        reasons.append(why)
        raise Outside(why)


def _importing() -> bool:
    """A module is imported once, whoever comes first to it: one cut short would stay half made."""
    frame: Any = getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _written(args: tuple[Any, ...]) -> bool:
    path, mode, flags = args
    if str(path) == os.devnull:
        return False
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return isinstance(flags, int) and bool(flags & _WRITES)


@contextmanager
def closed() -> Iterator[None]:
    """The doors are closed on this thread. Raises Outside, also where the call caught it."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_asked)
    before, _watch.reasons = _watch.reasons, []
    try:
        yield
        if _watch.reasons:
            raise Outside(_watch.reasons[0])
    finally:
        _watch.reasons = before
