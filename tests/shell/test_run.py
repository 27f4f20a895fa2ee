"""`reefwatch run` from outside: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled={low}):
        loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("done")
"""
LAST = re.compile(r"\d+ held, \d+ broken, \d+ unproven(, \d+ errored)?\n\Z")


@pytest.fixture
def train(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN.format(low=True))
    (tmp_path / "full.py").write_text(TRAIN.format(low=False))


def test_the_end_screen_goes_to_stderr_and_the_files_to_the_folder(reefwatch, train, tmp_path):
    done = reefwatch("run", "--claim", "bf16-mixed", "--out", "out", "train.py")
    assert done.stdout == "done\n"
    assert done.returncode == 0, done.stderr
    assert LAST.search(done.stderr)
    assert {"rank0.jsonl", "report.html", "report.json"} <= set(os.listdir(tmp_path / "out"))
    assert str(tmp_path / "out") in done.stderr
    again = reefwatch("report", "out")
    assert LAST.search(again.stdout)[0] == LAST.search(done.stderr)[0]
    told = json.loads((tmp_path / "out" / "report.json").read_text())
    assert told["command"] == "run"


def test_a_broken_claim_ends_in_3_and_the_script_wins_over_it(reefwatch, train):
    assert reefwatch("run", "--claim", "fp32", "--out", "a", "train.py").returncode == 3
    assert reefwatch("report", "a").returncode == 3
    assert reefwatch("report", "--claim", "bf16-mixed", "a").returncode == 0
    told = reefwatch("run", "--claim", "fp32", "--exit-code=script", "train.py")
    assert told.returncode == 0


def test_the_scripts_own_code_wins(reefwatch, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN.format(low=True) + "raise SystemExit(7)")
    assert reefwatch("run", "--claim", "fp32", "train.py").returncode == 7


def test_what_is_not_proven_is_4_when_proof_is_required(reefwatch, tmp_path):
    (tmp_path / "plain.py").write_text("print('no torch here')")
    done = reefwatch("run", "--claim", "fp32", "--require-proof", "plain.py")
    assert done.returncode == 4
    assert "torch was not imported by the script" in done.stderr
    assert reefwatch("run", "--claim", "fp32", "plain.py").returncode == 0


def test_all_files_can_be_had(reefwatch, train, tmp_path):
    kinds = ("html", "json", "junit", "sarif")
    done = reefwatch("run", *(f"--{kind}=x.{kind}" for kind in kinds), "--quiet", "train.py")
    assert done.stderr == ""
    assert all((tmp_path / f"x.{kind}").stat().st_size > 100 for kind in kinds)
    (run,) = (tmp_path / "reefwatch-runs").glob("2*")
    shown = reefwatch("report", str(run), "--json", "--html=y.html", "--sarif=y.sarif")
    assert json.loads(shown.stdout)["command"] == "report"
    assert (tmp_path / "y.html").stat().st_size > 100


def test_a_file_that_cannot_be_written_is_told_and_is_ours(reefwatch, train, tmp_path):
    with (tmp_path / "train.py").open("a") as script:
        script.write('__import__("os").rmdir("gone")\n')
    (tmp_path / "gone").mkdir()
    args = ["run", "--json=gone/folder.json", "--claim=bf16-mixed"]
    done = reefwatch(*args, "train.py")
    assert done.returncode == 0
    assert "reefwatch: writing folder.json failed: FileNotFoundError" in done.stderr
    assert "1 errored" in done.stderr.splitlines()[-1]
    (tmp_path / "gone").mkdir()
    assert reefwatch(*args, "--fail-internal", "train.py").returncode == 2


def test_a_broken_instrument_does_not_touch_the_run(reefwatch, train, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['reefwatch.gather.watch'] = None\n"
    )
    from pathlib import Path

    import reefwatch as package

    path = f"{tmp_path}:{Path(package.__file__).parents[1]}"
    done = reefwatch("run", "train.py", PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "reefwatch: the watch failed: " in done.stderr
    failing = reefwatch("run", "--fail-internal", "train.py", PYTHONPATH=path)
    assert failing.returncode == 2
    assert "1 errored" in failing.stderr.splitlines()[-1]


def test_ranks_other_than_the_first_are_silent(reefwatch, train, tmp_path):
    one = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    done = reefwatch("run", "--out=out", "--claim=fp32", "train.py", **one)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert os.listdir(tmp_path / "out") != []
    assert reefwatch("run", "no.py", **one).stderr == ""


def test_a_folder_that_cannot_be_written(reefwatch, tmp_path):
    (tmp_path / "plain.py").write_text("print('ran')")
    (tmp_path / "file").write_text("")
    asked = reefwatch("run", "--out", "file", "plain.py")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr == f"reefwatch: --out {tmp_path / 'file'}: a file, not a folder\n"
    below = reefwatch("run", "--out", "file/below", "plain.py")
    assert (below.returncode, below.stdout) == (0, "ran\n")
    assert below.stderr.startswith("reefwatch: ")
    assert "could not be written" in below.stderr.splitlines()[0]
    assert "Traceback" not in below.stderr


def test_a_full_disk(tmp_path, train):
    """The file may be no longer than one block: from there on the disk is full."""
    limited = (
        "import resource, signal, sys, runpy\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "sys.argv = ['reefwatch', 'run', '--claim=bf16-mixed', '--out=out', 'train.py']\n"
        "runpy.run_module('reefwatch', run_name='__main__')\n"
    )
    import reefwatch as package

    done = subprocess.run(
        [sys.executable, "-c", limited],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package.__path__[0] + "/..")},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout == "done\n"
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert LAST.search(done.stderr)
    assert re.search(r"PREC001", done.stderr)


def test_sigterm_leaves_a_record_that_can_be_judged(reefwatch, tmp_path):
    text = TRAIN.format(low=True) + "import os; os.kill(os.getpid(), 15)"
    (tmp_path / "train.py").write_text(text)
    done = reefwatch("run", "--out=out", "train.py")
    assert done.returncode == -signal.SIGTERM
    shown = reefwatch("report", "out")
    assert LAST.search(shown.stdout)
    assert "it has no end line" in shown.stdout


def test_strict_raises_in_the_users_own_frame(reefwatch, tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "model = torch.nn.Linear(64, 64)\n"
        "x = torch.randn(8, 64)\n"
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "    model(x)\n"
        "    with torch.autocast('cpu', enabled=False):\n"
        "        y = model(x)\n"
    )
    done = reefwatch("run", "--strict=precision", "--quiet", "train.py")
    assert done.returncode == 1
    assert 'train.py", line 7, in <module>' in done.stderr
    assert "reefwatch/gather" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("reefwatch.core.errors.Breach: ")


def test_a_configuration_that_is_asked_for_must_be_there(reefwatch, tmp_path):
    (tmp_path / "plain.py").write_text("print('ran')")
    for option in ("--config", "--baseline"):
        done = reefwatch("run", option, "no-such-file", "plain.py")
        assert (done.returncode, done.stdout) == (2, "")
        assert "no-such-file" in done.stderr
        assert done.stderr.count("\n") == 1
