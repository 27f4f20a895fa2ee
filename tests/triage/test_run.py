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


SPAWNS = """
import torch.multiprocessing as mp
def work(rank):
    if rank == 1:
        raise RuntimeError("HIP error: invalid device function\\nand more words")
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""


def test_what_a_spawned_child_raised_is_kept_by_it_and_by_its_parent(reefwatch, tmp_path):
    (tmp_path / "a.py").write_text(SPAWNS)
    done = reefwatch("run", "--out", "reefwatch-runs/a", "a.py")
    assert done.returncode == 1 and "layer cpp_hip, arch-not-in-wheel" in done.stderr
    (kept,) = tmp_path.glob("reefwatch-runs/a/spawned-*/rank1.error")
    lines = kept.read_text().splitlines()
    assert lines[-2:] == ["RuntimeError: HIP error: invalid device function", "and more words"]
    assert any(f'File "{tmp_path}/a.py", line 5, in work' in line for line in lines)
    assert "and more words" in (tmp_path / "reefwatch-runs/a/rank0.error").read_text()
    last = reefwatch("triage", "--last", "--json")
    assert '"family": "arch-not-in-wheel"' in last.stdout


def test_a_script_that_does_not_compile_is_kept(reefwatch, tmp_path):
    (tmp_path / "a.py").write_text("x = (1\n")
    plain = subprocess.run([sys.executable, "a.py"], cwd=tmp_path, capture_output=True, text=True)
    done = reefwatch("run", "a.py")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert done.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    last = reefwatch("triage", "--last")
    assert last.returncode == 3 and "SyntaxError" in last.stdout and "a.py:1" in last.stdout


def test_the_ranks_of_a_launch_are_read_together(reefwatch, tmp_path):
    for rank, text in (("0", "KeyError: 'x'"), ("1", "RuntimeError: No HIP GPUs are available")):
        folder = tmp_path / "reefwatch-runs" / "20260101-000000-a"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"rank{rank}.error").write_text(text + "\n")
    told = reefwatch("triage", "--last", "--json").stdout
    assert "rank0.error" in told and "rank1.error" in told
