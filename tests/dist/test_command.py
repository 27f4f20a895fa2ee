"""`reefwatch dist` as it is started."""

import json

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to try with one process"),
        (("--nproc", "0"), "not a number of processes"),
        (("--nproc", "2", "--backend", "mpi"), "known: gloo, nccl"),
        (("--nproc", "2", "--level", "deep"), "known: quick, full"),
        (("--nproc", "2", "--phases", "matrixx"), "known: matrix"),
        (("--nproc", "2", "--dtypes", "float31"), "not a dtype"),
        (("--nproc", "2", "--sizes", "1,x"), "not a list of sizes"),
        (("--nproc", "2", "--model", "none.py:f"), "M.py:factory"),
        (("--nproc", "2", "--deadline", "0s"), "above 0s"),
        (("--nproc", "2", "--html", "no/such/folder/x"), "there is no folder"),
    ],
)
def test_a_wrong_word_is_told_before_anything_runs(reefwatch, words, said):
    told = reefwatch("dist", *words)
    assert told.returncode == 2 and said in told.stderr and "Traceback" not in told.stderr


@pytest.mark.serial
def test_two_ranks_on_gloo(reefwatch, tmp_path):
    (tmp_path / "m.py").write_text(
        "from torch import nn\n"
        "def make():\n"
        "    return nn.Sequential(nn.Linear(5, 7), nn.ModuleList([nn.Linear(3, 4)]))\n"
    )
    words = ["--collectives", "all_reduce,all_to_all_single,barrier", "--dtypes", "float32,bool"]
    phases = ["--phases", "matrix,ddp,fsdp,mismatch,bandwidth", "--model", "m.py:make"]
    more = ["--out", "run", "--json", "--outliers", "odd.json", "--html", "r.html"]
    told = reefwatch("dist", "--nproc", "2", "--backend", "gloo", *words, *phases, *more)
    assert told.returncode == 3, told.stderr
    report = json.loads(told.stdout)
    verdicts = {one["code"]: one["verdict"] for one in report["outcomes"]}
    # the installed torch takes a strided tensor on gloo for a contiguous one, in silence
    assert verdicts["DIST003"] == "broken" and verdicts["DIST005"] == "broken"
    held = ("DIST001", "DIST002", "DIST004", "DIST006", "DIST010", "DIST011", "DIST020", "DIST021")
    assert {verdicts[code] for code in held} == {"held"}
    assert "DIST008" in report["unclaimed"]
    assert json.loads((tmp_path / "odd.json").read_text())["outliers"] == []
    assert "busbw" in (tmp_path / "r.html").read_text()
    again = reefwatch("report", "run")
    assert again.returncode == 3 and "DIST003" in again.stdout + again.stderr


@pytest.mark.serial
def test_a_fault_in_a_collective_is_found_and_its_rank_named(reefwatch, tmp_path):
    (tmp_path / "fault.py").write_text(
        "import torch.distributed as dist\n"
        "whole = dist.all_gather\n"
        "def bad(outs, given, **more):\n"
        "    work = whole(outs, given, **more)\n"
        "    if rank == 1:\n"
        "        outs[0].copy_(outs[1])\n"
        "    return work\n"
        "dist.all_gather = bad\n"
    )
    words = ["--collectives", "all_gather", "--dtypes", "float32", "--phases", "matrix"]
    told = reefwatch("dist", "--nproc", "2", "--backend", "gloo", "--inject", "fault.py", *words)
    assert told.returncode == 3
    text = " ".join(told.stdout.split())
    assert "the block of rank 0: holds what rank 1 sent" in text and "at all_gather, rank 1" in text


@pytest.mark.serial
def test_a_hang_is_told_and_what_comes_after_it_is_run(bars, reefwatch, tmp_path):
    (tmp_path / "fault.py").write_text(
        "import time\n"
        "import torch.distributed as dist\n"
        "whole = dist.broadcast\n"
        "def bad(*args, **more):\n"
        "    if rank == 1:\n"
        "        time.sleep(60)\n"
        "    return whole(*args, **more)\n"
        "dist.broadcast = bad\n"
    )
    words = ["--collectives", "broadcast,barrier", "--dtypes", "float32", "--phases", "matrix"]
    more = ["--deadline", "3s", "--inject", "fault.py", "--out", "run"]
    told = reefwatch("dist", "--nproc", "2", "--backend", "gloo", *words, *more)
    assert told.returncode == 3
    rows = bars.rows_in(str(tmp_path / "run"))
    states = {row["name"]: row["state"] for row in rows}
    assert states["broadcast float32"] == "hang" and states["barrier float32"] == "right"
    assert any("rank 1 at fault.py:6 bad" in str(row.get("detail")) for row in rows)
