"""`reefwatch run` of a script that dies: a line after its traceback, and nothing else is other."""

from __future__ import annotations

import subprocess
import sys

DIES = """
import atexit, sys
atexit.register(lambda: print("bye"))
class Odd(Exception):
    count = 0
    def __str__(self):
        Odd.count += 1
        return "asked"
def f():
    try:
        raise Odd
    except Odd as error:
        raise RuntimeError("HIP out of memory. Tried to allocate 2.00 GiB") from error
print("out")
f()
"""


def test_a_line_follows_the_users_traceback(reefwatch, tmp_path):
    (tmp_path / "die.py").write_text(DIES)
    plain = subprocess.run([sys.executable, "die.py"], cwd=tmp_path, capture_output=True, text=True)
    done = reefwatch("run", "die.py")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert done.stderr.startswith(plain.stderr)
    line = done.stderr[len(plain.stderr) :].splitlines()[0]
    assert line == (
        "reefwatch: triage: layer cpp_hip, hip-oom, 95% sure; "
        "`reefwatch triage --last` tells cause and fix"
    )
    last = reefwatch("triage", "--last")
    assert last.returncode == 3 and "HIP out of memory" in last.stdout


def test_quiet_says_nothing_and_keeps_the_error(reefwatch, tmp_path):
    (tmp_path / "die.py").write_text(DIES)
    done = reefwatch("run", "--quiet", "--out", "o", "die.py")
    assert "triage" not in done.stderr
    kept = (tmp_path / "o" / "rank0.error").read_text()
    assert kept.splitlines()[-1] == "RuntimeError: HIP out of memory. Tried to allocate 2.00 GiB"
    assert "Odd" in kept and "asked" not in kept  # its own __str__ is not called


def test_variables_that_matter_are_kept_and_secrets_are_not(reefwatch, tmp_path):
    (tmp_path / "a.py").write_text("raise RuntimeError('No HIP GPUs are available')")
    reefwatch(
        "run", "--out", "o", "a.py",
        ROCR_VISIBLE_DEVICES="1", HIP_VISIBLE_DEVICES="1", NCCL_TOKEN="hunter2secret",
    )  # fmt: skip
    kept = (tmp_path / "o" / "rank0.error").read_text()
    assert "HIP_VISIBLE_DEVICES=1" in kept and "hunter2secret" not in kept
    told = reefwatch("triage", "o/rank0.error", "--json").stdout
    assert '"family": "visible-devices-conflict"' in told


def test_a_script_that_ends_by_itself_is_not_triaged(reefwatch, tmp_path):
    (tmp_path / "a.py").write_text("import sys; sys.exit(5)")
    done = reefwatch("run", "--out", "o", "a.py")
    assert done.returncode == 5 and "triage" not in done.stderr
    assert not (tmp_path / "o" / "rank0.error").exists()
