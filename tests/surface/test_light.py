"""Light to start: modules are counted, and nothing heavy is among them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import reefwatch

HEAVY = {"torch", "numpy", "rich", "jinja2", "psutil", "pynvml"}
COUNT = "import sys; print(*sys.modules)"


def modules(code: str) -> set[str]:
    """What a fresh interpreter has loaded after `code`, whose own output goes elsewhere."""
    path = os.path.dirname(reefwatch.__path__[0])
    run = f"import sys; sys.path.insert(0, {path!r})\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", run], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("code", "most"),
    [
        ("import reefwatch", 60),
        ("import reefwatch; reefwatch.ReefwatchError; reefwatch.Report", 60),
        ("from reefwatch.shell import cli; cli.main(['--help'])", 120),
        ("import reefwatch; reefwatch.watch, reefwatch.report, reefwatch.explain", 120),
        ("from reefwatch.shell.commands import run; run.parser()", 120),
    ],
)
def test_modules_beyond_plain_python(code, most):
    added = modules(code) - modules("")
    assert len(added) <= most
    assert not {name.partition(".")[0] for name in added} & HEAVY


def test_a_script_without_torch_does_not_get_it(tmp_path):
    (tmp_path / "plain.py").write_text("import sys; print(*sys.modules)")
    code = (
        "import os, sys; from reefwatch.shell import cli\n"
        f"os.chdir({str(tmp_path)!r}); cli.main(['run', '--quiet', 'plain.py'])"
    )
    assert not {name.partition(".")[0] for name in modules(code)} & {"torch", "numpy"}
