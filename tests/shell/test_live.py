"""The live line: on a terminal only, seldom, and taken away at the end."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest

from reefwatch.shell import live, screen

STATUS = {"step": 1200, "kind": "optimizer", "exam": True, "examined": 3, "step_seconds": 0.0431}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delitem(sys.modules, "tqdm", raising=False)
    clock = iter(range(0, 1000, 1))
    monkeypatch.setattr(live, "monotonic", lambda: next(clock) / 5)
    return Terminal()


def test_words():
    assert live.words(STATUS) == "exam · step 1,200 · 43.1 ms a step · 3 examined"
    assert live.words({}) == "step 0 · 0 examined"


def test_nothing_on_a_pipe():
    pipe = io.StringIO()
    line = live.Live(pipe)
    line(STATUS)
    line.clear()
    assert pipe.getvalue() == ""


def test_one_line_that_the_next_print_goes_over(terminal):
    line = live.Live(terminal)
    line(STATUS)
    drawn = terminal.getvalue()
    assert "step 1,200" in drawn
    assert "\n" not in drawn
    assert drawn.endswith("\r")


def test_seldom(terminal, monkeypatch):
    line = live.Live(terminal)
    monkeypatch.setattr(live, "monotonic", lambda: 100.0)
    for _ in range(50):
        line(STATUS)
    assert terminal.getvalue().count("step 1,200") == 1


def test_not_under_a_progress_bar(terminal, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", object())
    live.Live(terminal)(STATUS)
    assert terminal.getvalue() == ""


def test_it_is_taken_away(terminal):
    line = live.Live(terminal)
    line(STATUS)
    line.clear()
    assert terminal.getvalue().endswith("\x1b[2K")
    before = terminal.getvalue()
    line.clear()
    assert terminal.getvalue() == before


def test_no_terminal_when_closed_or_dumb(monkeypatch):
    closed = io.StringIO()
    closed.close()
    assert not screen.is_terminal(closed)
    assert not screen.is_terminal(None)
    monkeypatch.setenv("TERM", "dumb")
    assert not screen.is_terminal(Terminal())


def test_the_end_screen_has_colour_on_a_terminal_only(reefwatch, tmp_path):
    (tmp_path / "plain.py").write_text("print('ran')")
    assert "\x1b[" not in reefwatch("run", "plain.py").stderr
    import reefwatch as package

    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "reefwatch", "run", "plain.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": package.__path__[0] + "/..", "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other side was closed
            break
        if not more:
            break
        shown += more
    out, _ = done.communicate(timeout=60)
    os.close(ours)
    assert out == b"ran\n"
    assert b"\x1b[" in shown
