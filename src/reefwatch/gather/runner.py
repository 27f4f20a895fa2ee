"""Runs somebody's script, folder, zip or module as `__main__`, as if Reefwatch were not there."""

from __future__ import annotations

import os
import pkgutil
import runpy
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from os import getpid  # kept: the program may mock os
from types import CodeType, FrameType, ModuleType
from typing import Any, NoReturn

from reefwatch.core.errors import UsageError
from reefwatch.gather import tracebacks

# what the interpreter itself has loaded before it looks at the script's folder
_ALWAYS_FIRST = """
    __main__ abc builtins codecs encodings genericpath io marshal os posix posixpath reefwatch
    site sitecustomize stat sys time usercustomize zipimport _abc _codecs _collections_abc
    _distutils_hack _frozen_importlib _frozen_importlib_external _imp _io _signal
    _sitebuiltins _stat _thread _warnings _weakref
""".split()  # noqa: SIM905


@dataclass(frozen=True)
class Program:
    """What is to be run: a script, a folder or zip with `__main__.py`, or a module by name."""

    kind: str
    """`script`, `container` or `module`."""
    target: str
    args: tuple[str, ...]
    code: CodeType | None = None
    """Of a script: read once, so that a pipe works as with python. None when it is no Python."""

    @property
    def name(self) -> str:
        """A short name for the run's folder."""
        if self.kind == "module":
            return self.target
        stem = os.path.splitext(os.path.basename(os.path.abspath(self.target)))[0]
        return stem or "script"


@dataclass(frozen=True)
class Ending:
    """How the program ended."""

    code: int
    """The status that python would end with, 0-255."""
    exception: str | None = None
    """The uncaught exception as one line."""
    interrupted: bool = False
    """By Ctrl-C: python then dies of the signal."""
    started: bool = True
    """False when runpy found no such module."""
    forked: bool = False
    """This is a forked child of the program that reached the end of the script."""
    trace: str = ""
    """The traceback of the uncaught exception, as text."""


def prepare(argv: Sequence[str], module: bool = False) -> Program:
    """The program that `argv` names, compiled if it is a script. Raises UsageError for none."""
    if not argv:
        raise UsageError("nothing to run: give a script, or -m and a module")
    target, args = argv[0], tuple(argv[1:])
    if module:
        return Program("module", target, args)
    if pkgutil.get_importer(target) is not None and os.path.exists(target):
        return Program("container", target, args)
    try:
        with open(target, "rb") as file:
            source = file.read()
    except (OSError, ValueError) as error:
        hint = "; a script on stdin is /dev/stdin" if target == "-" else ""
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot open {target!r}: {why}{hint}") from None
    return Program("script", target, args, _compiled(source, _absolute(target)))


def leave_to_python(program: Program) -> NoReturn:
    """Become plain python: a script that does not compile is told of in the interpreter's words.

    They differ from those of `compile` for a script in an unknown encoding, or with a null byte.
    """
    import subprocess

    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *flags, program.target, *program.args])


def complaint(program: Program) -> str:
    """Why a script does not compile, in the words of `compile`; "" when it cannot be read again."""
    import warnings
    from traceback import format_exception_only

    if not os.path.isfile(program.target):
        return ""
    try:
        with open(program.target, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(file.read(), _absolute(program.target), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return "".join(format_exception_only(type(error), error))
    except Exception:
        pass
    return ""


def run(program: Program) -> Ending:
    """Run it to its end, non-daemon threads included, and print what python would print.

    The user's `__main__` stays in place afterwards: atexit handlers and pickles may need it.
    """
    _keep.append(sys.modules.get("__main__"))
    main = sys.modules["__main__"] = _fresh_main()
    _set_path(program)
    pid, limit = getpid(), sys.getrecursionlimit()
    raised = limit + _depth(program)
    sys.setrecursionlimit(raised)
    caught: BaseException | None = None
    try:
        _execute(program, main)
    except BaseException as error:
        caught = error
    ending = _ending(caught, forked=getpid() != pid)
    del caught
    if not ending.forked:
        _join_threads()
    if sys.getrecursionlimit() == raised:
        sys.setrecursionlimit(limit)
    return ending


def _ending(error: BaseException | None, forked: bool) -> Ending:
    """What becomes of the exception that ended the program; it is shown here."""
    if error is None:
        return Ending(0, forked=forked)
    started = not _never_began(error)
    words = in_words(error, _WHOLE)
    code = tracebacks.show(error)
    if isinstance(error, SystemExit) and code == 0:
        return Ending(0, forked=forked)
    trace = (
        ""
        if isinstance(error, (SystemExit, KeyboardInterrupt))
        else tracebacks.in_text(error, words)
    )
    short = words[:_SHORT]
    return Ending(code, short, isinstance(error, KeyboardInterrupt), started, forked, trace)


_keep: list[ModuleType | None] = []
"""The modules that were `__main__` before: their globals must outlive them."""


def _fresh_main() -> ModuleType:
    """A module with the names that the interpreter gives to its `__main__`, in that order."""
    main = ModuleType("__main__")
    names: dict[str, Any] = vars(main)
    if sys.version_info < (3, 14):
        names["__annotations__"] = {}
    names["__builtins__"] = sys.modules["builtins"]
    return main


def _set_path(program: Program) -> None:
    """`sys.argv` and the first entry of `sys.path`, as the interpreter computes them."""
    first: str | None = None
    if program.kind == "module":
        sys.argv = ["-m", *program.args]  # runpy puts the file's path here when it knows it
        first = os.getcwd()
    else:
        sys.argv = [program.target, *program.args]
        first = os.path.dirname(os.path.realpath(program.target))
    if program.kind == "container":
        first = _absolute(program.target)
    elif getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
        return
    sys.path.insert(0, first)
    _make_room(first)


def _make_room(folder: str) -> None:
    """Forget modules that we loaded and that the script's folder has under the same name.

    A `json.py` beside the script is what its `import json` finds with plain python.
    """
    try:
        names = os.listdir(folder)
    except OSError:  # a zip, or not ours to read
        return
    own = {name.partition(".")[0] for name in names}.difference(_ALWAYS_FIRST)
    for loaded in [name for name in sys.modules if name.partition(".")[0] in own]:
        if loaded.partition(".")[0] not in sys.builtin_module_names:
            del sys.modules[loaded]


def _depth(program: Program) -> int:
    """Calls that will lie under the script's own: its recursion limit must not count them.

    Python before 3.12 counts a call of a builtin, here `exec`, like one of a function.
    """
    execs = int(program.kind == "script")
    frame: FrameType | None = sys._getframe(1)
    depth = 1  # _execute
    while frame is not None:
        depth += 1
        execs += frame.f_code.co_name == "_run_code"
        frame = frame.f_back
    return depth + (execs if sys.version_info < (3, 12) else 0)


def _execute(program: Program, main: ModuleType) -> None:
    if program.kind == "script":
        assert program.code is not None
        path = _absolute(program.target)
        kind = SourcelessFileLoader if path.endswith(".pyc") else SourceFileLoader
        names: dict[str, Any] = vars(main)
        names.update(__loader__=kind("__main__", path), __file__=path, __cached__=None)
        exec(program.code, names)
    else:
        # what `python -m` and `python folder` themselves call
        as_module = program.kind == "module"
        name = program.target if as_module else "__main__"
        runpy._run_module_as_main(name, as_module)  # type: ignore[attr-defined]


def _compiled(source: bytes, path: str) -> CodeType | None:
    try:
        if path.endswith(".pyc"):
            return SourcelessFileLoader("__main__", path).get_code("__main__")
        return compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, ImportError, EOFError, RecursionError, MemoryError):
        return None


def _absolute(path: str) -> str:
    """As the interpreter does it: `..` stays, and from 3.11 on a lone `.` is the folder itself."""
    if os.path.isabs(path):
        return path
    alone = path == "." and sys.version_info >= (3, 11)
    return os.getcwd() if alone else os.path.join(os.getcwd(), path)


def _never_began(error: BaseException) -> bool:
    """True when runpy gave up before the module's first line: no such module, no `__main__`."""
    if not isinstance(error, SystemExit) or not isinstance(error.code, str):
        return False
    link = error.__traceback__
    while link is not None and link.tb_next is not None:
        link = link.tb_next
    return link is not None and link.tb_frame.f_code.co_name == "_run_module_as_main"


_SHORT, _WHOLE = 500, 60_000
"""Characters of an exception in a record; and beside it, where what it tells of children counts."""


def in_words(error: BaseException, most: int = _SHORT) -> str:
    """The exception's class and message; the class alone when it cannot say itself."""
    try:
        return f"{type(error).__name__}: {error}"[:most]
    except Exception:  # the user's own __str__
        return type(error).__name__


def _join_threads() -> None:
    """Wait for the program's threads where the interpreter would; it will not wait again."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException as error:
        # a second Ctrl-C, say: the interpreter reports it and goes on
        tracebacks.ignored(error, threading)
