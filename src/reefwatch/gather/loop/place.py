"""Where in the user's program something happens."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType

_LIBRARIES = tuple(
    {
        path
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_path(name))
    }
)
_kinds: dict[str, str] = {}
_OURS = __file__.rsplit("/", 3)[0] + "/"


def user_place(depth: int = 1) -> tuple[str, int]:
    """File and line of the innermost frame that is the user's own.

    A frame of an installed library stands in when there is none of the user's (a trainer started
    with `-m`); torch, the standard library and this package never do. `("", 0)` when all are.
    """
    frame: FrameType | None = sys._getframe(depth)
    library = ("", 0)
    while frame is not None:
        file = frame.f_code.co_filename
        kind = _kinds.get(file) or _kind(file)
        if kind == "user":
            return file, frame.f_lineno
        if kind == "library" and not library[0]:
            library = (file, frame.f_lineno)
        frame = frame.f_back
    return library


def _kind(file: str) -> str:
    kind = "user"
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if file.startswith((_OURS, "<")) or (torch and file.startswith(os.path.dirname(torch) + "/")):
        kind = "passed over"
    elif file.startswith(_LIBRARIES):
        kind = "library" if "-packages" in file else "passed over"
    _kinds[file] = kind
    return kind


def outermost_call(entry: CodeType) -> FrameType | None:
    """The outermost frame that runs `entry` (`Module._call_impl`): the call of a root module."""
    frame: FrameType | None = sys._getframe(1)
    found = None
    while frame is not None:
        if frame.f_code is entry:
            found = frame
        frame = frame.f_back
    return found
