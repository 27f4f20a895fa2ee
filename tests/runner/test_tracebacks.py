"""Our own frames are taken out of an exception, wherever they hang."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import pytest

from reefwatch.gather import tracebacks

OURS = str(Path(tracebacks.__file__).with_name("patches.py"))
IMPORTLIB = "<frozen importlib._bootstrap>"
CALL = "def call(inner):\n    return inner()\n"


def through(*files: str):
    """A function that raises ValueError below frames of these files, outermost first."""

    def inner():
        raise ValueError("deep")

    for file in reversed(files):
        names: dict = {}
        exec(compile(CALL, file, "exec"), names)
        inner = (lambda call, below: lambda: call(below))(names["call"], inner)
    return inner


def files(error: BaseException) -> list[str]:
    """The files of its frames; those of this test are left out."""
    named = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return [name for name in named if name != __file__]


def raised(*names: str) -> BaseException:
    with pytest.raises(ValueError, match="deep") as caught:
        through(*names)()
    return caught.value


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([OURS, "user.py"], ["user.py"]),
        (["user.py", OURS, "torch.py"], ["user.py", "torch.py"]),
        (["user.py", OURS, OURS], ["user.py"]),
        (["a.py", IMPORTLIB, "b.py"], ["a.py", IMPORTLIB, "b.py"]),
        (["user.py", "torch.py"], ["user.py", "torch.py"]),
    ],
)
def test_frames(before, after):
    error = raised(*before)
    assert files(error) == before
    assert files(tracebacks.strip(error)) == after


def test_an_import_through_our_hook_looks_as_without_it():
    names = {}
    exec(compile("def call(inner):\n    return inner()\n", IMPORTLIB, "exec"), names)
    ours: dict = {}
    exec(compile(CALL, OURS, "exec"), ours)
    with pytest.raises(ValueError, match="deep") as caught:
        names["call"](lambda: 1 / 1 and through(IMPORTLIB, OURS, IMPORTLIB, "module.py")())
    assert files(tracebacks.strip(caught.value))[-1] == "module.py"


def test_what_is_chained_is_stripped_too():
    cause, context, plain = raised(OURS, "a.py"), raised("b.py", OURS), raised("c.py")
    cause.__context__ = plain
    plain.__context__ = cause  # a loop
    error = raised(OURS, "d.py")
    error.__cause__, error.__context__ = cause, context
    tracebacks.strip(error)
    assert [files(e) for e in (error, cause, context, plain)] == [
        ["d.py"],
        ["a.py"],
        ["b.py"],
        ["c.py"],
    ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="ExceptionGroup came with Python 3.11")
def test_a_group_is_stripped_inside():
    parts = [raised(OURS, "a.py"), raised("b.py", OURS)]
    group = ExceptionGroup("both", [parts[0], ExceptionGroup("deep", [parts[1]])])  # noqa: F821
    tracebacks.strip(group)
    assert [files(part) for part in parts] == [["a.py"], ["b.py"]]


def test_an_exception_that_guards_its_traceback_is_left_alone():
    class Guarded(ValueError):
        @property
        def __traceback__(self):
            raise RuntimeError("not for you")

    assert isinstance(tracebacks.strip(Guarded()), Guarded)
