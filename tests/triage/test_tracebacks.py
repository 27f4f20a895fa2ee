"""Tracebacks: chained, grouped, interleaved, cut, and of other processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from reefwatch.triage.clean import clean
from reefwatch.triage.tracebacks import Raised, Tracebacks


def raised(text: str) -> list[Raised]:
    traces, found = Tracebacks(), []
    for number, line in enumerate(text.splitlines(), 1):
        said = clean(line)
        one = traces.told(said.body, said.stream, number)
        found += [one] if one else []
    return [*found, *traces.cut()]


def printed(script: str) -> str:
    """What python itself prints."""
    script = textwrap.dedent(script)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stderr


def test_a_chain_is_one_and_knows_its_root():
    found = raised(
        printed(
            """
            def f():
                try:
                    {}["a"]
                except KeyError as error:
                    raise RuntimeError("no a") from error
            try:
                f()
            except RuntimeError:
                raise ValueError
            """
        )
    )
    assert [(one.kind, one.said) for one in found] == [
        ("KeyError", "'a'"),
        ("RuntimeError", "no a"),
        ("ValueError", ""),
    ]
    assert len({one.chain for one in found}) == 1
    assert [one.order for one in found] == [0, 1, 2]
    assert [one.caused for one in found] == [False, True, False]


def test_frames_are_kept():
    (one,) = raised(printed("def f():\n    raise OSError(5, 'gone')\nf()"))
    assert one.frames[-1][1:] == (2, "f") and one.name == "OSError"
    assert one.said == "[Errno 5] gone"


def test_ranks_that_speak_at_once_are_told_apart():
    text = printed("import json\njson.loads('')").splitlines()
    other = printed("def g():\n    return [][1]\ng()").splitlines()
    mixed = []
    for number in range(max(len(text), len(other))):
        for rank, lines in ((0, text), (1, other)):
            mixed += [f"[rank{rank}]: {lines[number]}"] if number < len(lines) else []
    found = raised("\n".join(mixed))
    assert {(one.stream, one.name) for one in found} == {
        ("0", "JSONDecodeError"),
        ("1", "IndexError"),
    }


def test_other_words_may_stand_within():
    text = printed("def f():\n    raise KeyError(3)\nf()").splitlines()
    text.insert(2, "Memory access fault by GPU node-1 on address 0x1. Reason: Unknown.")
    assert [one.kind for one in raised("\n".join(text))] == ["KeyError"]


def test_a_traceback_that_python_ignored():
    found = raised(printed("class A:\n    def __del__(self):\n        1 / 0\na = A()\ndel a"))
    assert [(one.kind, one.ignored) for one in found] == [("ZeroDivisionError", True)]


def test_an_exception_group_and_its_parts():
    if sys.version_info < (3, 11):
        return
    found = raised(printed("raise ExceptionGroup('both', [ValueError(1), KeyError(2)])"))
    assert {one.name for one in found} >= {"ExceptionGroup", "ValueError", "KeyError"}


def test_a_remote_exception_is_named_by_its_inner_class():
    (one,) = raised(
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
        "ray.exceptions.RayTaskError(ValueError): \x1b[36mray::f()\x1b[39m"
    )
    assert one.name == "ValueError"


def test_a_traceback_that_is_cut_off():
    (one,) = raised('Traceback (most recent call last):\n  File "a.py", line 7, in f\n    x = 1')
    assert (one.kind, one.frames) == ("", (("a.py", 7, "f"),))


def test_an_exception_without_a_traceback():
    (one,) = raised("ERROR: ValueError: not enough values to unpack")
    assert one.loose and one.name == "ValueError"
    assert raised("UserWarning: careful\nnote: all is well") == []
