"""Programs that take the interpreter, the folder or the disk away: theirs is the exit code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

APART = {
    "modules": "import sys; sys.modules.clear()",
    "builtins": "import builtins; builtins.isinstance = builtins.open = None; del builtins.any",
    "finders": "import sys; sys.meta_path.clear(); sys.path_hooks.clear(); sys.path[:] = []",
    "depth": "import sys; sys.setrecursionlimit(60)",
    "stdout": "import sys; del sys.stdout",
    "stderr": "import os, sys; sys.stderr = None; os.close(2)",
    "files": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))",
    "size": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
    "fds": "import os; os.closerange(3, 64)",
    "json": "import json; json.dumps = json.loads = None",
    "path": "import pathlib; pathlib.Path.exists = pathlib.Path.mkdir = None",
    "time": "import time; time.time = time.perf_counter = time.monotonic = time.strftime = None",
    "os": "import os; os.getpid = os.write = os.replace = os.stat = os.environ = None",
    "signals": "import signal; signal.signal = signal.getsignal = None",
    "threads": "import threading; threading.Thread = None",
    "cwd": "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
    "out": "import shutil; shutil.rmtree('out', ignore_errors=True)",
    "hook": "import sys; sys.excepthook = None; 1 / 0",
    "raises": "import sys; sys.modules.clear(); raise ValueError('theirs')",
}
REPORTED = {"builtins", "finders", "depth", "stdout", "fds", "out", "cwd", "hook", "threads"}
"""Of these a whole report is made all the same."""


@pytest.mark.parametrize("name", APART)
def test_the_run_is_unharmed(reefwatch, tmp_path: Path, name: str) -> None:
    (tmp_path / "script.py").write_text(f"print('ran', flush=True)\n{APART[name]}\n")
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    done = reefwatch("run", "--out=out", "script.py")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert done.stderr.startswith(plain.stderr)
    ours = done.stderr[len(plain.stderr) :]
    assert "Traceback" not in ours
    if name == "stderr":
        assert ours == ""
    else:
        assert "held" in ours.splitlines()[-1] or ours.startswith("reefwatch: ")
    if name in REPORTED:
        assert json.loads((tmp_path / "out" / "report.json").read_text())["command"] == "run"
        assert "errored" not in ours.splitlines()[-1]
    assert reefwatch("report", "out").returncode == 0


@pytest.mark.parametrize(
    "flags", [["-O"], ["-OO"], ["-W", "error"], ["-bb"], ["-X", "dev"], ["-s"]]
)
def test_flags_of_python(tmp_path: Path, flags: list[str]) -> None:
    (tmp_path / "script.py").write_text("print('ran')\n")
    import reefwatch as package

    environ = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    run = [sys.executable, *flags, "-m", "reefwatch"]
    done = subprocess.run(
        [*run, "run", "--out=out", "script.py"],
        cwd=tmp_path, env=environ, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "reefwatch: " not in done.stderr
    assert "errored" not in done.stderr
    assert "torch was not imported by the script" in done.stderr
    nonsense = subprocess.run(
        [*run, "run", "--exam=x", "script.py"],
        cwd=tmp_path, env=environ, capture_output=True, text=True,
    )  # fmt: skip
    assert nonsense.returncode == 2
    assert nonsense.stderr == "reefwatch: 'x' is not a time such as 20s, from 0 on\n"


BROKEN = {
    "raises": ("raise RuntimeError('libamdhip64.so is not there')", "could not be imported"),
    "no library": ("import ctypes; ctypes.CDLL('libnot.so')", "could not be imported"),
    "syntax": ("def f(:", "could not be imported"),
    "exits": ("raise SystemExit(9)", "could not be imported"),
    "empty": ("", "module 'torch' has no attribute '__version__'"),
    "old": ("__version__ = '0.4'\nclass Tensor: pass", "module 'torch' has no attribute"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_torch_that_is_none(reefwatch, tmp_path: Path, name: str) -> None:
    source, why = BROKEN[name]
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(source)
    (tmp_path / "script.py").write_text("import torch\nprint('on it goes')\n")
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    done = reefwatch("run", "--out=out", "script.py")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert done.stderr.startswith(plain.stderr)
    told = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {o["verdict"] for o in told["outcomes"]} <= {"unproven", "errored"}
    reasons = {o["reason"] for o in told["outcomes"] if o["verdict"] == "unproven"}
    assert len(reasons) == 1
    assert why in reasons.pop()


ENDING = """
import os, signal, sys
from reefwatch.api import session
def judge(self, command):
    os.kill(os.getpid(), signal.{name})
    raise AssertionError("it must have ended by now")
session.Session.judge = judge
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_signal_while_the_report_is_made(reefwatch, tmp_path: Path, name: str) -> None:
    (tmp_path / "script.py").write_text(ENDING.format(name=name) + "print('ran')\n")
    done = reefwatch("run", "--out=out", "script.py")
    assert done.returncode == -getattr(signal, name)
    again = reefwatch("report", "out")
    assert again.returncode == 0
    assert "no end line" not in again.stdout  # the record was whole before
    if name == "SIGINT":
        assert done.stdout == "ran\n"
        assert f"no report was made (interrupted); reefwatch report {tmp_path}/out" in done.stderr


def test_the_report_goes_where_no_folder_is_any_more(reefwatch, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import os; os.rename('out', 'moved')\n")
    done = reefwatch("run", "--out=out", "script.py")
    assert done.returncode == 0
    assert set(os.listdir(tmp_path / "out")) == {"rank0.jsonl", "report.html", "report.json"}
    shutil.rmtree(tmp_path / "out")
    assert reefwatch("report", "moved").returncode == 0
