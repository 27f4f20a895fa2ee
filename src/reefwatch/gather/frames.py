"""Where an op came from: Python frames above it, read without touching them.

The line that is told is the innermost one outside torch and Reefwatch, be it the user's or a
library's: that is where the dtype was decided. When it lies in a library the user's own innermost
line is kept beside it (`Site.caller`), looked up once per site.
"""

from __future__ import annotations

import os
import sysconfig
import weakref
from types import CodeType, FrameType
from typing import Any, Final

TORCH: Final = 1
MODULE: Final = 2
ENGINE: Final = 3
OPTIMIZER: Final = 4
COMPILED: Final = 5
USER: Final = 6
LIBRARY: Final = 7
"""Kinds of code; USER and LIBRARY, the highest, are those whose lines are told."""

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Site:
    """One place in the program under one autocast state. Compared by identity.

    `origin` is the forward site of an op that the autograd engine ran by itself.
    """

    __slots__ = (
        "autocast",
        "caller",
        "compiled",
        "file",
        "line",
        "module",
        "origin",
        "phase",
        "region",
    )

    def __init__(
        self,
        module: str = "",
        file: str = "",
        line: int = 0,
        phase: str = "setup",
        autocast: str = "off",
        region: str | None = None,
        caller: str = "",
        compiled: bool = False,
        origin: Site | None = None,
    ) -> None:
        self.module = module
        self.file = file
        self.line = line
        self.phase = phase
        self.autocast = autocast
        self.region = region
        self.caller = caller
        self.compiled = compiled
        self.origin = origin


class Codes:
    """The kind of each code object met, told from its file once."""

    def __init__(self, torch: Any) -> None:
        self._torch = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
        paths = sysconfig.get_paths()
        # a code object is kept with its kind: an id of a dead one could be given away again
        self._kept: list[CodeType] = []
        self.kinds: dict[int, int] = {}
        self._libraries = tuple(
            {paths[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        )

    def learn(self, code: CodeType) -> int:
        kind = self.kinds[id(code)] = self._kind(code)
        self._kept.append(code)
        return kind

    def _kind(self, code: CodeType) -> int:
        file, name = code.co_filename, code.co_name
        if file.startswith(self._torch):
            inner = file[len(self._torch) :].replace(os.sep, "/")
            if name == "_wrapped_call_impl" and inner == "nn/modules/module.py":
                return MODULE
            if name == "_engine_run_backward":
                return ENGINE
            # `profile_hook_step` and friends wrap the user's call; they are torch's, not a step
            return (
                OPTIMIZER if inner.startswith("optim/") and "optimizer.py" not in inner else TORCH
            )
        if file.startswith(_OWN) or file.startswith("<frozen"):
            return TORCH
        if file.startswith("<eval_with_key>") or "torchinductor" in file or name == "__compiled_fn":
            return COMPILED
        if file.startswith(self._libraries) or f"{os.sep}site-packages{os.sep}" in file:
            return LIBRARY
        return USER


class Modules:
    """Paths of the modules of every root seen. Modules are held weakly."""

    def __init__(self) -> None:
        self._paths: dict[int, tuple[weakref.ref[Any], str]] = {}
        self.roots: list[weakref.ref[Any]] = []
        self.weighted: set[str] = set()
        """Paths of the modules with parameters of their own, those no longer alive too."""

    def path(self, module: Any, frame: FrameType | None, codes: Codes) -> str:
        """The path of `module` in the outermost module that is running."""
        known = self._paths.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        root = module
        while frame is not None:
            kind = codes.kinds.get(id(frame.f_code)) or codes.learn(frame.f_code)
            if kind == MODULE:
                root = frame.f_locals.get("self", root)
            frame = frame.f_back
        self.add(root)
        known = self._paths.get(id(module))
        if known is None or known[0]() is not module:  # called by a module that does not own it
            self.add(module)
            known = self._paths[id(module)]
        return known[1]

    def owns(self, module: Any) -> bool:
        """True when `module` belongs to a root that is known."""
        known = self._paths.get(id(module))
        return known is not None and known[0]() is module

    def add(self, root: Any) -> None:
        """Name all modules under `root`; a second root's paths begin with its class name."""
        title = type(root).__name__
        before = "" if not self.roots else title + "."
        self.roots.append(weakref.ref(root))
        for path, module in root.named_modules():
            named = before + path if path else title
            self._paths[id(module)] = (weakref.ref(module), named)
            if next(module.parameters(recurse=False), None) is not None:
                self.weighted.add(named)

    def named(self) -> list[tuple[str, Any]]:
        """(path, module) of all modules that still live."""
        found = [(path, ref()) for ref, path in self._paths.values()]
        return [(path, module) for path, module in found if module is not None]


def user_line(frame: FrameType | None, codes: Codes) -> str:
    """`file:line` of the innermost frame of the user's own; `""` when it is `frame`, or none."""
    inner = frame
    while frame is not None:
        kind = codes.kinds.get(id(frame.f_code)) or codes.learn(frame.f_code)
        if kind == USER:
            if frame is inner:
                return ""
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if kind == ENGINE:
            return ""
        frame = frame.f_back
    return ""


def is_graph(module: Any) -> bool:
    """True for a traced graph: dynamo keeps compiled code in one, under no root of the user's."""
    return type(module).__name__.endswith("GraphModule")
