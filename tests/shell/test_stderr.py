"""What Reefwatch says goes to the stderr that it was started with, or nowhere."""

from __future__ import annotations

from textwrap import dedent

HOSTILE = """
import builtins, os, sys
plain = builtins.print
builtins.print = lambda *a, **k: plain("mine", *a, **k)
class Loud:
    def write(self, text): sys.__stdout__.write(text.upper())
    def flush(self): pass
sys.stdout = Loud()
print("hello")
"""


def test_nothing_of_ours_is_on_stdout_when_stderr_is_closed(reefwatch, tmp_path):
    ends = 'sys.stdout.flush(); os.close(2); sys.stderr = None\nprint("end")\n'
    (tmp_path / "a.py").write_text(HOSTILE + ends)
    done = reefwatch("run", "--out=out", "a.py")
    assert (done.stdout, done.stderr) == ("MINE HELLO\nMINE END\n", "")
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_file_that_took_the_number_of_stderr_is_left_alone(reefwatch, tmp_path):
    takes = 'os.close(2); assert os.open("mine.txt", os.O_CREAT | os.O_RDWR) == 2\n'
    (tmp_path / "a.py").write_text(dedent(HOSTILE + takes))
    done = reefwatch("run", "--out=out", "a.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "mine.txt").read_text() == ""


def test_a_print_of_the_programs_is_not_used(reefwatch, tmp_path):
    (tmp_path / "a.py").write_text(HOSTILE + "sys.stderr = sys.stdout\n")
    done = reefwatch("run", "--out=out", "a.py")
    assert done.stdout == "MINE HELLO\n"
    assert "mine" not in done.stderr and done.stderr.splitlines()[-1].startswith("0 held")
