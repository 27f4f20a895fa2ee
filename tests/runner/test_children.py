"""Children of `torch.multiprocessing.spawn` are watched, or run as they would without us."""

from __future__ import annotations

import pickle
import sys

import pytest

pytest.importorskip("torch")

from reefwatch.gather import children
from reefwatch.gather.patches import Patches

SPAWN = """
import os, sys
import torch
import torch.multiprocessing as mp
def work(rank, bad):
    print(rank, torch.ones(2).sum().item(), [k for k in os.environ if "REEF" in k], flush=True)
    if rank == bad: raise ValueError("a bad rank")
if __name__ == "__main__":
    mp.spawn(work, (int(sys.argv[1]),), nprocs=1)
"""


@pytest.fixture
def wrap():
    """Torch's own function, and what stands in for it."""
    module = sys.modules["torch.multiprocessing.spawn"]
    original, patches = module._wrap, Patches()
    count = children.install(patches, {"claim": None})
    yield original, module._wrap, count
    patches.restore()
    assert module._wrap is original


def test_pickled_it_takes_the_plan_along(wrap):
    _, ours, count = wrap
    again = pickle.loads(pickle.dumps(ours))
    assert isinstance(again, children.Watched)
    assert again.plan == {"claim": None, "nprocs": 0}
    assert count() == {"spawned": 1, "watched": 1}


def test_for_another_interpreter_it_is_torchs_own(wrap, monkeypatch):
    from multiprocessing import spawn

    _, ours, count = wrap
    monkeypatch.setattr(spawn, "get_executable", lambda: b"/another/python")
    assert b"reefwatch" not in pickle.dumps(ours)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert count() == {"spawned": 2, "watched": 0}


def test_it_has_the_name_of_what_it_stands_for(wrap):
    original, ours, _ = wrap
    assert (ours.__module__, ours.__qualname__) == (original.__module__, original.__qualname__)


def test_a_child_whose_watch_fails_still_runs(wrap, monkeypatch, tmp_path):
    monkeypatch.setattr(children, "_OPENER", "no.such:thing")
    ran = []
    children.Watched({})(lambda index, word: ran.append((index, word)), 3, ("x",), "")
    assert ran == [(3, "x")]


@pytest.mark.parametrize("bad", ["-1", "0"])
def test_the_same_from_outside(bench, bad):
    bench.write("prog.py", SPAWN)
    watched = bench.watched("--out=out", "prog.py", bad)
    plain = bench.plain("prog.py", bad)
    assert (watched.stdout, watched.returncode) == (plain.stdout, plain.returncode)
    assert watched.stderr == plain.stderr
    assert (bench.folder / "out" / "spawned-1" / "rank0.jsonl").is_file()


def test_the_children_are_judged(bench):
    bench.write(
        "prog.py",
        """
        import torch
        import torch.multiprocessing as mp
        def work(rank):
            model = torch.nn.Linear(4, 2)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(4):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = model(torch.randn(8, 4)).square().mean()
                loss.backward(); optimizer.step(); optimizer.zero_grad()
        if __name__ == "__main__":
            mp.spawn(work, nprocs=2)
        """,
    )
    assert bench.watched("--out=out", "--claim=fp32", "prog.py").returncode == 3
    from reefwatch import report

    judged = report(bench.folder / "out", claim="bf16-mixed")
    assert {o.code: o.verdict.value for o in judged.outcomes}["PREC001"] == "held"
    assert len(judged.records) == 3
    assert [one.header["world"] for one in judged.records] == [1, 2, 2]
    assert judged.records[0].fact("watch.children").value == {"spawned": 2, "watched": 2}
